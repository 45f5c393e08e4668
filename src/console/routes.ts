/** The screens by address. They are loaded when they are opened. */
import type { ComponentType } from 'preact'
import type { ScreenProps } from './state.ts'

interface Route {
  /** The path, in which parts that begin with a colon are parameters. */
  readonly path: string
  readonly title: string
  readonly load: () => Promise<ComponentType<ScreenProps>>
}

export const ROUTES: readonly Route[] = [
  {
    path: '/console',
    title: 'Overview',
    load: async () => (await import('./screens/overview.ts')).Overview,
  },
  {
    path: '/console/usage',
    title: 'Usage',
    load: async () => (await import('./screens/usage.ts')).Usage,
  },
  {
    path: '/console/requests',
    title: 'Requests',
    load: async () => (await import('./screens/requests.ts')).Requests,
  },
  {
    path: '/console/keys',
    title: 'Keys',
    load: async () => (await import('./screens/keys.ts')).Keys,
  },
  ...['/console/keys/:id', '/console/keys/:id/:tab'].map((path) => ({
    path,
    title: 'Key',
    load: async () => (await import('./screens/key.ts')).Key,
  })),
  {
    path: '/console/accounts',
    title: 'Accounts',
    load: async () => (await import('./screens/accounts.ts')).Accounts,
  },
  ...['/console/accounts/:id', '/console/accounts/:id/:tab'].map((path) => ({
    path,
    title: 'Account',
    load: async () => (await import('./screens/account.ts')).Account,
  })),
  {
    path: '/console/models',
    title: 'Models',
    load: async () => (await import('./screens/models.ts')).Models,
  },
  {
    path: '/console/guard',
    title: 'Guard',
    load: async () => (await import('./screens/guard.ts')).Guard,
  },
  ...['/console/settings', '/console/settings/:tab'].map((path) => ({
    path,
    title: 'Settings',
    load: async () => (await import('./screens/settings.ts')).Settings,
  })),
  {
    path: '/console/play',
    title: 'Playground',
    load: async () => (await import('./screens/play.ts')).Playground,
  },
  ...['/me', '/me/:tab'].map((path) => ({
    path,
    title: 'Your key',
    load: async () => (await import('./screens/me.ts')).Me,
  })),
]
