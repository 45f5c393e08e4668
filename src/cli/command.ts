interface OptionSpec {
  /** Name of the value in the help, such as `file`; without it the option is a switch. */
  readonly value?: string
  /** Whether the value may be left out; it follows "=". */
  readonly optional?: true
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
  /** @throws CommandError with a message for the user and the exit status */
  run(args: Arguments): Promise<void>
}

/** Statuses of a failed command; `docs/operations.md#exit-status` says what each means. */
type FailureStatus = 1 | 2 | 3 | 70 | 74

/** The reason why a command failed. Its message is printed without a stack. */
export class CommandError extends Error {
  readonly exitCode: FailureStatus

  constructor(message: string, exitCode: FailureStatus = 1) {
    super(message)
    this.name = 'CommandError'
    this.exitCode = exitCode
  }
}
