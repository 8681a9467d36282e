/** Every row that came in has exactly one end, as the text of the metrics has it. @throws Error naming the stream */
export function assertConserved(text: string): void {
  const sums = new Map<string, { received: number; ended: number }>();
  for (const [, name, stream = '', value] of text.matchAll(
    /^tapekeep_(rows_received_total|rows_total|rows_in_flight)\{stream="(\w+)"(?:,outcome="\w+")?\} (\d+)$/gm,
  )) {
    const sum = sums.get(stream) ?? { received: 0, ended: 0 };
    if (name === 'rows_received_total') sum.received += Number(value);
    else sum.ended += Number(value);
    sums.set(stream, sum);
  }
  if (!text.includes('tapekeep_rows_total')) throw new Error(`these are no metrics: ${text}`);
  for (const [stream, { received, ended }] of sums) {
    if (received !== ended) throw new Error(`${stream}: ${received} received, ${ended} ended`);
  }
}
