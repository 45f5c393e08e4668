/** Commands over vendors, models, search engines and sinks that are set up at run time. */
import { asked, connected, list } from '../asked.ts'
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

const LISTED = list({
  NAME: 'name',
  USE: 'value.use',
  'CHANGED BY': 'changed_by',
  'CHANGED AT': 'changed_at',
  STATE: ({ shadowed_by, left_out }) => {
    if (left_out !== null) return `left out: ${left_out}`
    return shadowed_by === null ? 'in force' : `no effect: ${shadowed_by} has this name`
  },
})
const NONE = 'None are set up; those of the configuration file are in "config show".\n'

/** The entry of the examples of a noun, and how they set it up and change it. */
const EXAMPLES: Readonly<Record<Noun, readonly [name: string, added: string, updated: string]>> = {
  providers: ['groq', '--use groq --secret apiKey=file:key', '--set timeout=120'],
  models: ['groq/llama-4', '--price prompt=0.0000004', '--alias llama'],
  engines: ['exa', '--use exa --set price=0.01 --secret apiKey=file:key', '--set price=0.005'],
  sinks: ['bills', '--use webhook --set url=https://bills.example.com', '--set events=call.ended'],
}

/** The text of a change that was made, or tried. */
export const outcome = async ({ data }: any) => (await import('../managed.ts')).outcomeOf(data)

/** The commands of one kind of entries. */
export function entryCommands(noun: Noun, one: string): Command[] {
  const isModel = noun === 'models'
  const options = isModel ? MODEL : ENTRY
  const more: OptionSpecs = noun === 'providers' ? { models: SERVED } : {}
  const tested: OptionSpecs = isModel ? { deployment: { value: 'id', help: 'this one alone' } } : {}
  const own = ({ data }: any) => data.entries.filter(({ section }: any) => section === noun)
  const listed = [
    asked(`${noun} list`, `List each ${one} that was set up at run time.`, {
      ask: () => '/managed',
      json: own,
      show: (answer) => (own(answer).length > 0 ? LISTED({ data: own(answer) }) : NONE),
    }),
    entry(`show ${EXAMPLES[noun][0]}`, `Show one ${one}, without its secrets.`, 'showEntry', noun),
  ]
  const added = { ...options, ...more }
  const [name, add, update] = EXAMPLES[noun]
  return [
    ...(isModel ? [] : listed),
    entry(
      `add ${name} ${add}`,
      `Set up a ${one}: it serves at once, on all gateways.`,
      'addEntry',
      noun,
      added,
    ),
    entry(`update ${name} ${update}`, `Change a ${one}.`, 'updateEntry', noun, options),
    asked(`${noun} remove`, `Remove a ${one}.`, {
      arguments: ['name'],
      options: CHANGE,
      example: `${noun} remove ${name}`,
      ask: ({ positionals: [name], text: { note }, on }) => {
        const changes = [{ section: noun, name, value: null }]
        return ['POST', '/managed', { changes, dry_run: on.has('dry-run'), note }]
      },
      show: outcome,
    }),
    entry(`test ${name}`, `Test a ${one}.`, 'testEntry', noun, tested),
  ]
}

/** @param line the example, which begins with the verb */
function entry(
  line: string,
  help: string,
  run: 'showEntry' | 'addEntry' | 'updateEntry' | 'testEntry',
  noun: Noun,
  options: OptionSpecs = {},
): Command {
  const name = `${noun} ${line.split(' ')[0]}`
  const row = { arguments: ['name'], options, example: `${noun} ${line}` }
  return connected(name, help, row, async (admin, args) =>
    (await import('../managed.ts'))[run](noun, admin, args),
  )
}
