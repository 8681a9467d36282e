/** Login: where to go afterwards, and what the last attempt lacked. The form works without this script. */

const query = new URLSearchParams(location.search);
const next = query.get('next') ?? '/';
const field = document.querySelector<HTMLInputElement>('input[name=next]');
if (field !== null && /^\/(?![/\\])/.test(next)) field.value = next;

const FAULTS: Readonly<Record<string, string>> = {
  '#wrong': 'This token is not known. Check http.token of the settings.',
  '#limited': 'Too many wrong tokens. Wait a minute, then try again.',
};
const fault = document.querySelector<HTMLElement>('#fault');
const text = FAULTS[location.hash];
if (fault !== null && text !== undefined) {
  fault.textContent = text;
  fault.hidden = false;
}
