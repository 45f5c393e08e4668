/** Words in the place of codes. The code stands behind, as a title. */

/** Kinds of alerts. */
export const ALERTS: Readonly<Record<string, string>> = {
  'deployment.down': 'Deployment down',
  'model.down': 'Model down',
  'egress.down': 'Proxy down',
  'ledger.down': 'The ledger cannot write',
  'ledger.differs': 'The ledger differs',
  'ledger.replayed': 'Bookings were repeated',
  'ledger.sealed': 'A month was sealed',
  'outbox.old': 'Charges wait',
  'log.dropped': 'The request log has lost calls',
  'disk.low': 'Disk nearly full',
  'store.full': 'Redis nearly full',
  'errors.high': 'Many errors',
  'fallback.many': 'Many fall-backs',
  'guard.open': 'Guard not asked',
  'sink.disabled': 'Sink stopped',
  'balance.low': 'Low balance',
  'balance.empty': 'Balance used up',
  'cap.80': 'Cap nearly reached',
  'cap.100': 'Cap reached',
  'key.expiring': 'Key expires soon',
  'price.changed': 'Price changed',
  'price_list.missing': 'Price list missing',
  'payment.unmatched': 'Payment without an order',
  'managed.invalid': 'Entry left out',
  'managed.behind': 'Behind other gateways',
  'seed.differs': 'Seeded secret differs',
}

/** How calls ended. */
export const ENDS: Readonly<Record<string, string>> = {
  completed: 'The client got its answer.',
  failed: 'Neither a vendor nor the gateway could answer.',
  blocked: 'A policy kept back the request, or its answer.',
  limited: 'A limit or the balance refused the call.',
  rejected: 'The request was wrong, or not allowed to its key.',
  left: 'The client left before the end.',
}

/** Classes of failures of vendors. */
const FAILURES: Readonly<Record<string, string>> = {
  bad_request: 'refused as invalid',
  context_length: 'longer than its context',
  content_blocked: 'blocked by its filter',
  payload_too_large: 'too large',
  not_found: 'model not known there',
  upstream_auth: 'credentials refused',
  upstream_balance: 'its balance is used up',
  upstream_rate: 'too many requests',
  overloaded: 'no capacity',
  upstream_error: 'failed',
  timeout: 'no answer in time',
  ok: 'answered',
  cancelled: 'client left',
}

export function failureText(name: string): string {
  return FAILURES[name] ?? name.replaceAll('_', ' ')
}

/** Words for an actor's id. */
const ACTORS: Readonly<Record<string, (name: string) => string>> = {
  file: (name) => `the token ${name} of the configuration`,
  token: (id) => `the token ${id}`,
  oidc: (identity) => identity.replace(/^([^/]*)\/(.*)$/, '$2, signed in by $1'),
  proxy: (user) => `${user}, signed in by the proxy`,
  member: (id) => `the member ${id}`,
  key: (id) => `the holder of the key ${id}`,
  payments: (provider) => `a payment at ${provider}`,
  seed: () => 'the seed of the configuration',
  gateway: () => 'the gateway itself',
}

/** Who did something, by the id that is stored with it: `file:admin` is `the token admin of the configuration`. */
export function actorText(id: string): string {
  const [kind = '', ...name] = id.split(':')
  return ACTORS[kind]?.(name.join(':')) ?? id
}

export const WINDOWS = {
  minute: 'a minute',
  '5h': 'per 5 hours',
  day: 'a day',
  week: 'a week',
  month: 'a month',
  lifetime: 'in all',
}

/** A limit by its name: `key.cap.month` is `USD a month of the key`. */
export function limitText(name: string): string {
  if (!name.includes('.'))
    return { rpm: 'requests a minute', concurrency: 'calls at once' }[name] ?? name
  const [owner = '', what = '', window = '', models] = name.split('.')
  const counted = { rpm: 'requests a minute', concurrency: 'calls at once', cap: 'USD' }[what]
  const span = window === 'models' ? '' : ` ${WINDOWS[window as keyof typeof WINDOWS] ?? window}`
  const scope = (models ?? (window === 'models' && window)) ? ' for some models' : ''
  const of = owner === 'tier' ? 'of the free tier' : `of the ${owner}`
  return `${counted ?? what}${window === '' ? '' : span}${scope} ${of}`
}
