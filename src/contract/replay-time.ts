/**
 * How a replay names its time when it has nothing to show yet. A reader knows from it that asking again
 * does not help before that time has gone on.
 */
export const REPLAY_TIME = 'the time of this replay';
