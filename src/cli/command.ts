/** What a command of the command line is. */

/** Options that take a text, or none. */
export interface OptionSpec {
  /** What the value is, such as `file`; without it the option is a switch. */
  readonly value?: string
  readonly help: string
}

export type OptionSpecs = Readonly<Record<string, OptionSpec>>

/** What was typed, taken apart: every required argument is there, every option is known. */
export interface Arguments {
  readonly positionals: readonly string[]
  /** Texts of options that take one. */
  readonly text: Readonly<Record<string, string | undefined>>
  /** Switches that were given. */
  readonly on: ReadonlySet<string>
}

export interface Command {
  /** Words that call it, such as `keys create`. */
  readonly name: string
  readonly help: string
  /** Names of the arguments; all of them are required. */
  readonly arguments?: readonly string[]
  readonly options?: OptionSpecs
  /** @throws CommandError what the user is told, and with what status the process ends */
  run(args: Arguments): Promise<void>
}

/** Something the user can put right; shown without a stack. */
export class CommandError extends Error {
  /** 1: it did not work; 2: it was called wrongly. */
  readonly exitCode: 1 | 2

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message)
    this.name = 'CommandError'
    this.exitCode = exitCode
  }
}
