/** What a route of the admin API needs; each role has some of them. */
export type Right = 'read' | 'keys' | 'money' | 'contents' | 'config' | 'people'
