/** Migrations: what an installation of another gateway becomes here. */

/** How much a note matters to the operator, the worst first. */
export type Harm = 'unserved' | 'locked' | 'wider' | 'differs' | 'elsewhere' | 'lost' | 'none'

/** Something of the source that the result does not have, or has in another form. It never shows a secret. */
export interface MigrationNote {
  readonly harm: Harm
  /** Path of the member in the configuration, or the table and the number of the row with the column. */
  readonly where: string
  readonly message: string
  /** What the operator can do about it. */
  readonly remedy?: string
}

/** A row of a table by the names of its columns. */
export type MigrationRow = Readonly<Record<string, unknown>>

/** A table of the other program and the columns by which it is recognised. */
export interface MigrationTable {
  readonly kind: string
  readonly columns: readonly string[]
}

/** An installation as it was read from its files. */
export interface Installation {
  /** Its configuration; undefined for a program that has none. Numbers are the text of the file. */
  readonly config: unknown
  /** Rows by the kind of their table; a table that was not given is absent. */
  readonly tables: ReadonlyMap<string, readonly MigrationRow[]>
  /** Fields whose restrictions may be dropped. */
  readonly accept: ReadonlySet<string>
  /** Ids of the models that price lists have. */
  readonly listed: ReadonlySet<string>
}

/** A model, as the models file has it. An entry that is not enabled waits for something that the notes name. */
export interface MigratedModel {
  readonly enabled?: false
  readonly modality?: string
  readonly price_of?: string
  readonly pricing?: Readonly<Record<string, unknown>>
  readonly aliases?: readonly string[]
  readonly context_length?: number
  /** Parameters of a chat that apply where a request does not say them. */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** Models that answer where it cannot, as its entry names them. */
  readonly fallbacks?: readonly unknown[]
  /** Use of stored answers. */
  readonly cache?: string
  readonly deployments?: readonly Readonly<Record<string, unknown>>[]
}

/** An account to create. */
export interface MigratedAccount {
  readonly name: string
  /** Members of the admin API beside the name. */
  readonly settings: Readonly<Record<string, unknown>>
  /** USD that it has in the source, as decimal text. */
  readonly credit?: string
}

/** A team to create. */
export interface MigratedTeam {
  readonly account: string
  readonly name: string
  readonly disabled: boolean
  /** Members of the admin API. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** A key to create. */
export interface MigratedKey {
  readonly account: string
  readonly id: string
  readonly name: string
  readonly sha256: string
  /** What lists show of the secret, where the source tells. */
  readonly start?: string
  readonly disabled: boolean
  /** Members of the admin API. */
  readonly settings: Readonly<Record<string, unknown>>
  /** Number of the row, from 1. */
  readonly row: number
}

/** What an installation becomes. */
export interface Migration {
  /** `gateway.config.yaml` */
  readonly config: Readonly<Record<string, unknown>>
  /** `models.yaml` */
  readonly models: ReadonlyMap<string, MigratedModel>
  /** Secrets for `.env`, by variable. They must not be shown. */
  readonly env: ReadonlyMap<string, string>
  /** Further variables that the configuration reads. */
  readonly needs: readonly string[]
  readonly accounts: ReadonlyMap<string, MigratedAccount>
  /** Teams by their ids. */
  readonly teams?: ReadonlyMap<string, MigratedTeam>
  readonly keys: readonly MigratedKey[]
  readonly notes: readonly MigrationNote[]
}

/** A gateway that can be taken over. It reads and writes no file. */
export interface MigrationSource {
  /** The word behind `import`; also the beginning of the ids of accounts and keys. */
  readonly name: string
  /** The name of the program in sentences. */
  readonly title: string
  /** Whether it has a configuration file. */
  readonly configured: boolean
  /** Its tables, in the order in which their columns are looked for. */
  readonly tables: readonly MigrationTable[]
  /** @throws TypeError that says what is not there, without any content of the files */
  read(installation: Installation): Migration
}
