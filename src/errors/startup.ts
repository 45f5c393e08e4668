/** Faults that keep a gateway from starting, or are reported at its end. No client receives these. */

export interface ConfigIssue {
  /** Dotted path of the member, such as `providers.openai.options.apiKey`. */
  readonly path: string
  /** Expected and actual value. */
  readonly message: string
}

/** The configuration, or a plugin it names, cannot be used. Thrown at start-up and reload only, never to a client. */
export class ConfigError extends Error {
  readonly issues: readonly ConfigIssue[]
  /** @param source the file, as the operator named it @param issues at least one; the message lists them all */
  constructor(source: string, issues: readonly ConfigIssue[]) {
    const width = Math.max(...issues.map((issue) => issue.path.length))
    const lines = issues.map((issue) => `  ${issue.path.padEnd(width)}  ${issue.message}`)
    super(`${source} is not valid:\n${lines.join('\n')}`)
    this.name = 'ConfigError'
    this.issues = issues
  }
}

/** State is lost, damaged or not written down: an operator has to act before the next start. */
export class LostState extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'LostState'
  }
}

/** Settlements could not be booked before the gateway ended. The log has one line for each. */
export class UnbookedSettlements extends LostState {
  constructor(count: number) {
    const which = count === 1 ? '1 settlement' : `${count} settlements`
    super(`${which} could not be booked: see "settlement not booked" in the log`)
    this.name = 'UnbookedSettlements'
  }
}
