/** Commands for authors of plugins. */
import type { Command, Group, OptionSpecs } from '../command.ts'

const JSON_OUTPUT: OptionSpecs = { json: { help: 'print JSON' } }
const OPTIONS: OptionSpecs = {
  options: { value: 'file or JSON', help: 'its options (default: an address and a key)' },
}
/** Options of tests that have one name only. */
const TESTING: OptionSpecs = {
  requests: {
    value: 'module',
    help: 'the form of requests of its vendor, for the difficult conversations',
  },
  ...OPTIONS,
  seed: { value: 'n', help: 'repeats the random parts of an earlier test' },
}
const ADDRESS = {
  value: 'name',
  help: 'the option that holds the address (default: baseURL, url or endpoint)',
}
const CASES = {
  value: 'folder',
  help: 'answers of its vendor or service, and what is expected (default: the folder beside it with its name, as acme.cases of acme.ts)',
}

/** `plugin …`, and `provider test`, its name until 1.0. */
const COMMANDS: readonly Command[] = [
  {
    name: 'plugin new',
    help: 'Write a plugin that passes its kit, to start from.',
    arguments: ['kind', 'name'],
    options: {
      style: {
        value: 'name',
        help: 'provider: sse, lines, whole, tools or images; guard: check, stream or remote',
      },
      package: { help: 'a folder that can be published as a package' },
      js: { help: 'JavaScript in place of TypeScript' },
      dir: { value: 'folder', help: 'where to write (default: here)' },
    },
    example: 'plugin new provider acme',
    run: async (args) => (await import('../plugin/new.ts')).newPlugin(args),
  },
  {
    name: 'plugin test',
    help: 'Test a plugin in a process of its own, against a vendor on this machine.',
    arguments: ['plugin'],
    options: {
      cases: CASES,
      address: ADDRESS,
      only: { value: 'check', help: 'run the checks of this name only' },
      watch: { help: 'again whenever the plugin or its cases change' },
      ...TESTING,
      ...JSON_OUTPUT,
    },
    example: 'plugin test ./acme.ts',
    run: async (args) => (await import('../plugin/test.ts')).testOne(args),
  },
  {
    name: 'plugin dev',
    help: 'Serve a plugin, anew whenever it changes, and show what each call does.',
    arguments: ['file'],
    options: {
      live: { help: 'ask its real vendor or service, not the answers of its cases' },
      port: { value: 'n', help: 'the port to listen on (default: a free one)' },
      cases: CASES,
      address: ADDRESS,
      ...OPTIONS,
      quiet: { help: 'show the end of each call only' },
      stack: { help: 'show the whole stack of an error' },
    },
    example: 'plugin dev ./acme.ts',
    run: async (args) => (await import('../plugin/dev.ts')).developPlugin(args),
  },
  {
    name: 'plugin record',
    help: 'Ask a real vendor once through a plugin, and write the answer as a case.',
    arguments: ['file'],
    options: {
      request: { value: 'file', help: 'what to ask, as JSON: a chat request, a query, or a text' },
      case: { value: 'name', help: 'name of the case' },
      cases: CASES,
      ...OPTIONS,
    },
    example: 'plugin record ./acme.ts --request question.json --case hello',
    run: async (args) => (await import('../plugin/record.ts')).recordCase(args),
  },
  {
    name: 'plugin list',
    help: 'List built-in plugins, and packages with plugins that are found from here.',
    options: {
      config: { value: 'file', help: 'the configuration whose plugins are marked as used' },
      ...JSON_OUTPUT,
    },
    run: async (args) => (await import('../plugin/list.ts')).listPlugins(args),
  },
  {
    name: 'plugin show',
    help: 'Show the methods and the options of a plugin.',
    arguments: ['plugin'],
    options: {
      ...OPTIONS,
      markdown: { help: 'print Markdown, for the README of a package' },
      ...JSON_OUTPUT,
    },
    example: 'plugin show openai',
    run: async (args) => (await import('../plugin/show.ts')).showPlugin(args),
  },
  {
    name: 'provider test',
    help: 'The same as plugin test, until 1.0.',
    arguments: ['plugin'],
    options: {
      transcripts: CASES,
      'base-url-option': ADDRESS,
      ...TESTING,
      ...JSON_OUTPUT,
    },
    example: 'provider test ./acme.ts',
    run: async (args) => (await import('../plugin/test.ts')).testOne(args),
  },
]

export const PLUGINS: Group = { name: 'Plugins', page: 'plugins/index', commands: COMMANDS }
