/** Runs the kit of a plugin of any kind, in the process of the caller. */
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ConfigError } from '../errors/errors.ts'
import { didYouMean, show } from '../errors/issues.ts'
import type { FoundPlugin } from '../gateway/plugin-code.ts'
import { readGuardCases, readPaymentsCases, readSearchCases, readSinkCases } from './case-files.ts'
import type { RequestForm } from './checks/conversations.ts'
import { checkGuard } from './guard.ts'
import { testProvider } from './kit.ts'
import { testPayments, type SignWebhook } from './payments.ts'
import { type KitOptions, type KitReport, allHints } from './report.ts'
import { testSearch } from './search.ts'
import { testSink } from './sink.ts'
import { readTranscripts } from './transcripts.ts'

/** The plugin and the options of its test; all of it can be sent to another process. */
export interface PluginJob extends Omit<KitOptions, 'onProgress'> {
  /** A path, the name of a built-in plugin, or a package. */
  readonly plugin: string
  /** Folder in which paths and packages are resolved. */
  readonly directory: string
  /** Absolute path of the folder with the cases; by default the one beside the file, `acme.cases` for `acme.ts`. */
  readonly cases?: string
  readonly options?: Readonly<Record<string, unknown>>
  readonly addressOption?: string
  /** Absolute path of a module whose default export is a {@link RequestForm}. */
  readonly requests?: string
}

/** Tests a plugin in this process. @throws ConfigError for an unusable plugin, options or cases */
export async function runPluginJob(
  job: PluginJob,
  found: FoundPlugin,
  onProgress: KitOptions['onProgress'],
): Promise<KitReport> {
  const { plugin, directory, options, addressOption, seed, timeoutMs, only } = job
  if (only !== undefined && !Object.hasOwn(allHints(), only)) {
    const message = `there is no check ${show(only)}; ${didYouMean(only, Object.keys(allHints()))}`
    throw new ConfigError('the test', [{ path: 'only', message }])
  }
  const folder = job.cases ?? (await casesBeside(found.file))
  const kit = {
    thorough: job.thorough ?? true,
    ...(options && { options }),
    ...(addressOption !== undefined && { addressOption }),
    ...(seed !== undefined && { seed }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(only !== undefined && { only }),
    ...(onProgress && { onProgress }),
  }
  if (found.kind === 'guard') {
    return checkGuard(found.plugin, folder ? await readGuardCases(folder) : [], kit)
  }
  if (found.kind === 'search') {
    const cases = folder ? await readSearchCases(folder) : []
    return testSearch(found.plugin, { ...kit, cases })
  }
  if (found.kind === 'sink') {
    const cases = folder ? await readSinkCases(folder) : []
    return testSink(found.plugin, { ...kit, cases })
  }
  if (found.kind === 'payments') {
    const cases = folder ? await readPaymentsCases(folder) : []
    return testPayments(found.plugin, { ...kit, cases, sign: await readSigner(folder) })
  }
  const form = job.requests === undefined ? undefined : await readForm(job.requests)
  return testProvider({
    ...kit,
    provider: found.plugin ?? plugin,
    directory,
    ...(folder && { transcripts: await readTranscripts(folder) }),
    ...(form && { requests: form }),
  })
}

/** @throws ConfigError with an issue at `requests` */
async function readForm(file: string): Promise<RequestForm> {
  const refuse = (message: string): never => {
    throw new ConfigError('the test', [{ path: 'requests', message }])
  }
  const module = (await import(pathToFileURL(file).href).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    return refuse(`${file} cannot be loaded: ${reason}`)
  })) as { default?: Partial<RequestForm> }
  const form = module.default
  if (typeof form?.schema?.['~standard']?.validate === 'function') return form as RequestForm
  const expected = 'a default export with "schema", a Standard Schema of request bodies'
  return refuse(`expected ${file} to have ${expected}`)
}

/** The module `sign` among the cases, whose default export signs webhooks. @throws ConfigError */
export async function readSigner(folder = '.'): Promise<SignWebhook> {
  const names = ['sign.ts', 'sign.js', 'sign.mjs'].map((name) => join(folder, name))
  const file = names.find((name) => existsSync(name))
  const module = file && ((await import(pathToFileURL(file).href)) as { default?: unknown })
  if (module && typeof module.default === 'function') return module.default as SignWebhook
  const message = `expected a module sign.ts in ${folder} whose default export signs a webhook`
  throw new ConfigError('the test', [{ path: 'cases', message }])
}

async function casesBeside(file: string): Promise<string | undefined> {
  const folder = file.replace(/\.[cm]?[jt]s$/, '.cases')
  const stats = await stat(folder).catch(() => undefined)
  return stats?.isDirectory() ? folder : undefined
}
