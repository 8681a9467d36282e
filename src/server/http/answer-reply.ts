import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';
import { JSON_TYPE } from './reply-head.js';

/** The JSON text of an answer: in one piece, or in parts that are at hand. */
export type AnswerText = string | readonly Uint8Array[];

export function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.type(JSON_TYPE).send(text);
}

/**
 * Sends an answer; parts go out just as they are. To join them would take memory anew for every
 * page, and to give that back costs several times what all else of a reply does.
 *
 * @param inOnePiece whether somebody wants to see the text before it goes
 */
export function sendAnswer(
  reply: FastifyReply,
  answer: AnswerText,
  inOnePiece: boolean,
): FastifyReply {
  if (typeof answer === 'string') return sendJson(reply, answer);
  // Node would put the head of parts before the `100 Continue` of a pipelined request.
  const isExpecting = reply.request.headers.expect !== undefined;
  if (inOnePiece || isExpecting) return sendJson(reply, Buffer.concat(answer).toString());
  const { raw } = reply.type(JSON_TYPE).hijack();
  if (raw.destroyed) return reply;
  const length = answer.reduce((sum, part) => sum + part.length, 0);
  const headers = { ...reply.getHeaders(), 'content-length': length } as OutgoingHttpHeaders;
  raw.writeHead(reply.statusCode, headers);
  // All parts in one call of the system.
  raw.cork();
  for (const part of answer) raw.write(part);
  raw.end();
  return reply;
}
