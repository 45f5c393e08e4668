/** A command of the table, and the parsed command line. */

interface OptionSpec {
  /** Name of the value in the help, such as `file`; without it the option is a switch. */
  readonly value?: string
  /** Whether the value may be left out; it follows "=". */
  readonly optional?: true
  /** How a time is read: a length in seconds, or a moment, where a length means from now on, or before now. */
  readonly time?: 'length' | 'later' | 'ago'
  /** Its name in the admin API, where that is another one. */
  readonly member?: string
  readonly help: string
}

export type OptionSpecs = Readonly<Record<string, OptionSpec>>

/** The parsed command line: all required arguments are present, all options are known. */
export interface Arguments {
  readonly positionals: readonly string[]
  /** Values of options that take one; of several the last. */
  readonly text: Readonly<Record<string, string | undefined>>
  /** All values of options that take one. */
  readonly all: Readonly<Record<string, readonly string[] | undefined>>
  readonly on: ReadonlySet<string>
}

/** What an argument can name by id, name, beginning or secret. */
export type Kind = 'account' | 'key' | 'team' | 'token' | 'session' | 'alert' | 'member'

/** The owner of limits: `team:` and `account:` stand before its name, `key:` may. */
export type Owner = 'owner'

export interface Command {
  readonly name: string
  readonly help: string
  /** Names of the arguments; all are required. */
  readonly arguments?: readonly string[]
  /** Name of an argument after them that may be left out. */
  readonly optional?: string
  /** Whether the optional argument may be repeated. */
  readonly repeated?: true
  readonly options?: OptionSpecs
  /** A command line that shows what it is for, without the name of the program. */
  readonly example?: string
  /** @throws CommandError with a message for the user and the exit status */
  run(args: Arguments): Promise<void>
}

/** Commands that stand together in the help. */
export interface Group {
  readonly name: string
  /** The page of the manual about them. */
  readonly page: string
  readonly commands: readonly Command[]
}

/** Statuses of a failed command; `docs/operations.md#exit-status` says what each means. */
type FailureStatus = 1 | 2 | 3 | 70 | 74

/** The reason why a command failed. Its message is printed without a stack. */
export class CommandError extends Error {
  readonly exitCode: FailureStatus
  /** Members of the error in JSON beside its message. */
  readonly members: Readonly<Record<string, unknown>>

  constructor(
    message: string,
    exitCode: FailureStatus = 1,
    members: Readonly<Record<string, unknown>> = {},
  ) {
    super(message)
    this.name = 'CommandError'
    this.exitCode = exitCode
    this.members = members
  }
}
