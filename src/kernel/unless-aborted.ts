/**
 * Waits for `work`, but no longer than until `signal` aborts. What is left of it is ended by closing
 * what it works on; `discard` lets go of what it brings too late.
 *
 * Of many pieces of work nothing is kept alive by a signal that outlives them. A race against one
 * promise that stands for the signal would keep every result there ever was.
 *
 * @throws the signal's reason
 */
export async function unlessAborted<T>(
  signal: AbortSignal,
  work: Promise<T>,
  discard?: (late: T) => Promise<void>,
): Promise<T> {
  const waiting = new AbortController();
  const stopped = new Promise<never>((_, reject) => {
    const give = () => reject(signal.reason as Error);
    if (signal.aborted) give();
    else signal.addEventListener('abort', give, { once: true, signal: waiting.signal });
  });
  try {
    return await Promise.race([work, stopped]);
  } catch (error) {
    if (signal.aborted) work.then(discard).catch(() => undefined);
    throw error;
  } finally {
    waiting.abort();
  }
}
