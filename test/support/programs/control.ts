import assert from 'node:assert/strict';

/** One request to the control paths of a running sandbox or replay. */
export interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly body?: object | undefined;
  readonly session?: string;
}

/** Sends one request. @returns status, and the text as it came */
export async function askControl(
  url: string,
  path: string,
  { body, method = body === undefined ? 'GET' : 'POST', session }: Asked = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`${url}/${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
    headers: session === undefined ? {} : { 'x-tapekeep-session': session },
  });
  return { status: response.status, text: await response.text() };
}

/** Sends one request that is to succeed. @returns its `result` */
export async function controlled<T>(url: string, path: string, asked?: Asked): Promise<T> {
  const { status, text } = await askControl(url, path, asked);
  assert.equal(status, 200, text);
  return (JSON.parse(text) as { readonly result: T }).result;
}
