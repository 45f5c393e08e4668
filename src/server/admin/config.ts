/** The configuration in the admin API: effective values and their origins. */
import { settingsOf } from '../../config/settings.ts'
import { checkParameters } from '../../errors/query.ts'
import type { SettingAnswer } from './resources/gateway.ts'
import type { Answer, AdminRequest } from './route.ts'

/** Shows the settings. A secret is `set` or `not set`. */
export function showConfig({ gateway, query }: AdminRequest): Answer {
  checkParameters(query, new Set())
  const data = settingsOf(gateway.loaded).map<SettingAnswer>(
    ({ path, value, isSecret, origin }) => ({
      path: path.join('.'),
      value,
      secret: isSecret,
      origin,
    }),
  )
  return { body: { data, next: null } }
}
