/** `plugin show`: the methods and options of a plugin. */
import { describePlugin, type PluginDescription, type DescribedOption } from '../../testing.ts'
import type { Arguments } from '../command.ts'
import { cell, print, table } from '../output.ts'
import { fileOrName, readOptions } from './test.ts'

/** Prints a description of one plugin. @throws ConfigError; CommandError for options that cannot be read */
export async function showPlugin(args: Arguments): Promise<void> {
  const { positionals, text, on } = args
  const options = text.options === undefined ? undefined : await readOptions(text.options)
  const description = await describePlugin(fileOrName(positionals[0] ?? ''), options)
  print(args, description, () =>
    on.has('markdown') ? inMarkdown(description) : inWords(description),
  )
}

const HEADINGS = ['option', 'type', 'default']

function inWords({ kind, name, api, options, ...others }: PluginDescription): string {
  const { deploymentOptions, methods, ...members } = others
  const lines = [
    `${kind} ${name}, interface version ${api}\n`,
    `\nmethods: ${cell(methods)}\n`,
    ...Object.entries(members).map(([member, value]) => `${member}: ${cell(value)}\n`),
    '\n',
    table(
      HEADINGS.map((one) => one.toUpperCase()),
      options.map(rowOf),
    ),
  ]
  if (deploymentOptions) {
    lines.push(
      '\nOf deployments:\n',
      table(['OPTION', 'TYPE', 'DEFAULT'], deploymentOptions.map(rowOf)),
    )
  }
  return lines.join('')
}

function inMarkdown({ kind, options, deploymentOptions, methods, ...others }: PluginDescription) {
  const { name: _name, api: _api, ...members } = others
  const facts = [['kind', kind], ['methods', cell(methods)], ...Object.entries(members)]
  return [
    ...facts.map(([fact, value]) => `- ${String(fact)}: ${cell(value)}\n`),
    `\n${markdownTable(options)}`,
    ...(deploymentOptions
      ? [`\nOptions of deployments:\n\n${markdownTable(deploymentOptions)}`]
      : []),
  ].join('')
}

function markdownTable(options: readonly DescribedOption[]): string {
  const rows = [
    HEADINGS,
    HEADINGS.map(() => '---'),
    ...options.map((one) => rowOf(one).map(String)),
  ]
  return rows
    .map((row) => `| ${row.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |\n`)
    .join('')
}

function rowOf({ name, type, required, default: preset }: DescribedOption): string[] {
  const presetText = preset === undefined ? '-' : JSON.stringify(preset)
  return [name, type, required ? 'required' : presetText]
}
