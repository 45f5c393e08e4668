/** Commands over vendors, models, search engines and sinks that are set up at run time. */
import { connected } from '../asked.ts'
import type { Command, OptionSpecs } from '../command.ts'
import type { Noun } from '../managed.ts'

export const CHANGE: OptionSpecs = {
  'dry-run': { help: 'check everything, and change nothing' },
  note: { value: 'text', help: 'why, for the history' },
}
const ENTRY: OptionSpecs = {
  use: { value: 'plugin', help: 'a built-in plugin or a vendor, such as openai (required)' },
  set: { value: 'name=value', help: 'an option of it; may be repeated' },
  secret: {
    value: 'name=source',
    help: 'a secret option from standard input (=-), =env:NAME or =file:path; may be repeated',
  },
  ...CHANGE,
}
const MODEL: OptionSpecs = {
  deployment: { value: 'provider/model', help: 'where calls go; may be repeated' },
  price: {
    value: 'name=value',
    help: 'a price in USD per unit, such as prompt=0.0000025; may be repeated',
  },
  alias: { value: 'name', help: 'a further name; may be repeated' },
  name: { value: 'text', help: 'its name for people' },
  ...CHANGE,
}
const SERVED = {
  value: 'which',
  help: 'tests the vendor and serves its models: all, none, or names separated by commas',
} as const

/** The commands of one kind of entries. */
export function entryCommands(noun: Noun, one: string): Command[] {
  const options = noun === 'models' ? MODEL : ENTRY
  const more: OptionSpecs = noun === 'providers' ? { models: SERVED } : {}
  const deployment = { deployment: { value: 'id', help: 'this one alone' } }
  return [
    ...(noun === 'models'
      ? []
      : [
          entry(
            `${noun} list`,
            `List each ${one} that was set up at run time.`,
            'listEntries',
            noun,
          ),
          entry(`${noun} show`, `Show one ${one}, without its secrets.`, 'showEntry', noun, [
            'name',
          ]),
        ]),
    entry(
      `${noun} add`,
      `Set up a ${one}: it serves at once, on all gateways.`,
      'addEntry',
      noun,
      ['name'],
      { ...options, ...more },
    ),
    entry(`${noun} update`, `Change a ${one}.`, 'updateEntry', noun, ['name'], options),
    entry(`${noun} remove`, `Remove a ${one}.`, 'removeEntry', noun, ['name'], CHANGE),
    entry(
      `${noun} test`,
      `Test a ${one}.`,
      'testEntry',
      noun,
      ['name'],
      noun === 'models' ? deployment : {},
    ),
  ]
}

type EntryCommand =
  | 'listEntries'
  | 'showEntry'
  | 'addEntry'
  | 'updateEntry'
  | 'removeEntry'
  | 'testEntry'

function entry(
  name: string,
  help: string,
  run: EntryCommand,
  noun: Noun,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  return connected(name, help, { arguments: names, options }, async (admin, args) =>
    (await import('../managed.ts'))[run](noun, admin, args),
  )
}

type LayerCommand =
  | 'listOffers'
  | 'exportConfig'
  | 'listHistory'
  | 'revertConfig'
  | 'showSecret'
  | 'rotateSecret'

export function layer(
  name: string,
  help: string,
  run: LayerCommand,
  names: readonly string[] = [],
  options: OptionSpecs = {},
): Command {
  return connected(name, help, { arguments: names, options }, async (admin, args) =>
    (await import('../managed.ts'))[run](admin, args),
  )
}
