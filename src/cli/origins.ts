/** The origins of settings, as `check` shows them. */
import type { LoadedConfig } from '../config/config.ts'
import type { Origin } from '../config/origins.ts'
import { settingsOf, type Setting } from '../config/settings.ts'
import { table } from './output.ts'

interface ConfigOrigins {
  /** The keys are the id of a model and the member of its entry; without defaults. */
  readonly ofModels: ReadonlyMap<string, ReadonlyMap<string, Origin[]>>
  /** All settings that are not in the entry of a model. */
  readonly others: readonly Setting[]
}

export function originsOf(loaded: LoadedConfig): ConfigOrigins {
  const ofModels = new Map<string, Map<string, Origin[]>>()
  const others: Setting[] = []
  for (const setting of settingsOf(loaded)) {
    const [section, id, member] = setting.path
    if (section !== 'models' || id === undefined || member === undefined) {
      others.push(setting)
      continue
    }
    if (setting.origin.from === 'default') continue
    let members = ofModels.get(id)
    if (!members) ofModels.set(id, (members = new Map()))
    const origins = members.get(member) ?? []
    const isKnown = namesOf(origins).includes(originInWords(setting.origin))
    members.set(member, isKnown ? origins : [...origins, setting.origin])
  }
  return { ofModels, others }
}

export function namesOf(origins: readonly Origin[]): string[] {
  return [...new Set(origins.map(originInWords))]
}

export function settingInJson({ path, value, origin }: Setting): object {
  return { path: path.join('.'), value, origin }
}

export function settingsTable(settings: readonly Setting[]): string {
  const rows = settings
    .filter(({ origin }) => origin.from !== 'default')
    .map(({ path, value, origin }) => [
      path.join('.'),
      typeof value === 'object' ? JSON.stringify(value) : value,
      originInWords(origin),
    ])
  return rows.length === 0 ? '' : `\n${table(['SETTING', 'VALUE', 'FROM'], rows)}`
}

/** An origin in a few words, such as `gateway.config.yaml` or `OPENAI_API_KEY`. */
export function originInWords({ from, file, name }: Origin): string {
  return name ?? file ?? from
}
