/** The meaning of a command line without a command. */

const FLAGS: Readonly<Record<string, string>> = {
  '--version': 'version',
  '-v': 'version',
  '--help': 'help',
  '-h': 'help',
}

/** The command line with its command: `version` or `help` for their flags, `serve` where there is none. */
export function withCommand(argv: readonly string[]): readonly string[] {
  const [first = '', ...rest] = argv
  const flag = FLAGS[first]
  if (flag !== undefined) return [flag, ...rest]
  const isCommand = first !== '' && !first.startsWith('-')
  return isCommand || argv.includes('--help') || argv.includes('-h') ? argv : ['serve', ...argv]
}
