/** Members of requests that are the gateway's own, or those of routers in its place: no vendor gets them. */
export const OWN_MEMBERS: readonly string[] = [
  'policy',
  'session_id',
  'plugins',
  'provider',
  'models',
  'route',
  'transforms',
  'usage',
]
