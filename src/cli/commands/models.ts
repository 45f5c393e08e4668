/** Commands over models, vendors and search engines. */
import { asked, cardOf, connected, list, LOCAL } from '../asked.ts'
import type { Group } from '../command.ts'
import { cell, width } from '../output.ts'
import { withQuery } from '../settings.ts'
import { entryCommands } from './managed.ts'

const JSON_OUTPUT = { json: { help: 'print JSON' } }

/** A line for each deployment. */
const LINES = list(
  {
    MODEL: 'model',
    MODALITY: 'modality',
    DEPLOYMENT: 'deployment',
    HEALTH: 'health.state',
    SINCE: 'health.since',
    'LATENCY MS': 'health.latency_ms',
    FAILURES: ({ health }) => Number(cell(health.failures)) || null,
    'LAST FAILURE': 'health.last_failure',
    'COOLDOWN UNTIL': 'health.rests_until',
  },
  ['LATENCY MS', 'LAST FAILURE', 'SINCE', 'FAILURES', 'MODALITY'],
)

export const MODELS: Group = {
  name: 'Models',
  page: 'models-and-prices',
  commands: [
    {
      name: 'vendors',
      help: 'List the vendors that are known by name, and the variables of their keys.',
      options: JSON_OUTPUT,
      run: async (args) => (await import('../vendors.ts')).listVendors(args),
    },
    asked('models', 'List the models with their deployments and their health.', {
      options: {
        vendor: { value: 'names', help: 'only those of these vendors, separated by commas' },
        find: { value: 'text', help: 'only those with this text in their id or another name' },
        used: { value: 'days', help: 'only those that were called lately, such as 30d' },
      },
      example: 'models --vendor mock',
      ask: (args) =>
        withQuery(
          '/models',
          args,
          ['vendor', 'used'],
          args.text.find === undefined ? {} : { q: args.text.find },
        ),
      show: ({ data }) => {
        const lines = data.flatMap(({ id: model, modality, deployments }: any) =>
          deployments.map((one: any) => ({ ...one, model, modality, deployment: one.id })),
        )
        return LINES({ data: width() === undefined ? lines : withoutRepetition(lines) })
      },
    }),
    asked('models show', 'Show a model, by any of its names.', {
      arguments: ['model'],
      example: 'models show mock/echo',
      ask: (_, path) => `/models${path}`,
      show: (answer) => MODEL_CARD(answer),
    }),
    asked('models unserved', 'List names that clients ask for in vain, and what changes that.', {
      all: true,
      ask: () => '/models/unserved',
      show: list(
        { NAME: 'name', REASON: 'reason', ASKED: 'asked', ACCOUNTS: 'accounts', LAST: 'last_at' },
        ['ACCOUNTS', 'LAST'],
        // Commands and settings are copied: they are never cut.
        ({ data }) =>
          data
            .map(
              ({ name, remedy }: any) =>
                `\n${cell(name)}:\n  ${cell(remedy).replaceAll(/ {2,}(?=or: )/g, '\n  ')}\n`,
            )
            .join(''),
      ),
    }),
    {
      name: 'models discover',
      help: 'Ask the vendors for their models, and compare them with those served.',
      optional: 'vendor',
      repeated: true,
      options: LOCAL,
      example: 'models discover openai',
      run: async (args) => (await import('../discover.ts')).discoverModels(args),
    },
    {
      name: 'models lint',
      help: 'Look for mistakes in the prices of the configuration, or of a price list.',
      optional: 'file',
      options: { strict: { help: 'fail if there are warnings' }, ...LOCAL },
      example: 'models lint prices.json',
      run: async (args) => (await import('../models.ts')).lintModels(args),
    },
    {
      name: 'models price',
      help: 'Show what a call would cost, or the prices of a model.',
      arguments: ['model'],
      options: {
        prompt: { value: 'n', help: 'tokens of the prompt' },
        cached: { value: 'n', help: 'tokens of it that are read from a cache' },
        completion: { value: 'n', help: 'tokens of the answer' },
        units: { value: 'n', help: 'images, pages, characters or seconds, as the model counts' },
        at: { value: 'time', help: 'when the call enters, such as "2027-01-31T00:00:00Z"' },
        ...LOCAL,
      },
      example: 'models price mock/echo --prompt 1000 --completion 200',
      run: async (args) => (await import('../models.ts')).showPrice(args),
    },
    {
      name: 'models import',
      help: 'Compare prices.json with public price lists, or take their prices over.',
      options: {
        from: {
          value: 'list',
          help: 'a list by name, a file or an https address; may be repeated',
        },
        format: { value: 'name', help: 'the form of a file (default: what it looks like)' },
        only: { value: 'models', help: 'only these, such as "openai/*"; may be repeated' },
        accept: { value: 'model[:price]', help: 'take over what was held back; may be repeated' },
        output: { value: 'file', help: 'the list to change (default: prices.json)' },
        write: { help: 'write the list; without it nothing is changed' },
        ...LOCAL,
      },
      example: 'models import --from litellm --only "openai/*" --write',
      run: async (args) => (await import('../import-prices.ts')).importPrices(args),
    },
    ...entryCommands('models', 'model'),
    asked('deployments cooldown', 'Send a deployment no new calls for a while, on all gateways.', {
      arguments: ['deployment'],
      options: { for: { value: 'time', time: 'length', help: 'how long, up to 1d (default: 1h)' } },
      example: 'deployments cooldown openai/gpt-5 --for 30m',
      ask: ({ text }, path) => [
        'POST',
        `/deployments${path}/cooldown`,
        { seconds: Number(text.for ?? 3600) },
      ],
      show: DEPLOYMENT,
    }),
    asked('deployments resume', 'Send calls to a deployment again.', {
      arguments: ['deployment'],
      example: 'deployments resume openai/gpt-5',
      ask: (_, path) => ['POST', `/deployments${path}/resume`],
      show: DEPLOYMENT,
    }),
    ...entryCommands('providers', 'provider'),
    connected(
      'providers offers',
      'List the models of a vendor, with their prices.',
      { arguments: ['name'], example: 'providers offers groq' },
      async (admin, args) => (await import('../managed.ts')).listOffers(admin, args),
    ),
    ...entryCommands('engines', 'search engine'),
  ],
}

function DEPLOYMENT({ data: { id, health } }: any): string {
  const until = health.rests_until === null ? '' : ` until ${cell(health.rests_until)}`
  return `Deployment ${cell(id)}: ${cell(health.state)}${until}.\n`
}

/** Lines that name a model once, and a deployment only where its name is another one. A blank is no missing value. */
function withoutRepetition(lines: readonly any[]): any[] {
  const isNamed = lines.some(({ model, deployment }) => model !== deployment)
  return lines.map((one, at) => ({
    ...one,
    ...(lines[at - 1]?.model === one.model && { model: ' ', modality: ' ' }),
    ...(one.deployment === one.model && { deployment: isNamed ? ' ' : null }),
  }))
}

const MODEL_CARD = cardOf(({ deployments, fallbacks = [] }) => ({
  fallbacks: fallbacks.map((one: any) => [one.model, one.when, one.skipped ?? []].flat().join(' ')),
  deployments: deployments.map(({ id }: any) => id),
}))
