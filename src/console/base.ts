/** The path that a proxy has before the gateway: every address that the page writes begins with it, and no other file adds it. */
const BASE =
  typeof document === 'undefined'
    ? ''
    : (document.querySelector<HTMLMetaElement>('meta[name="base"]')?.content ?? '')

/** The address of a path of the gateway. */
export function at(path: string): string {
  return BASE + path
}

/** The path of the gateway in an address. */
export function withoutBase(path: string): string {
  return path === BASE || path.startsWith(`${BASE}/`) ? path.slice(BASE.length) || '/' : path
}

/** The address of the gateway, without a slash at its end. */
export function ownAddress(): string {
  return location.origin + BASE
}
