/** A real gateway with some weeks of work behind it, and the machine's chromium in front of it. */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

/** Where Debian puts it; CHROMIUM names another one. */
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** Whether there is a browser: tests are skipped without one, and say so. */
export const hasBrowser = existsSync(CHROMIUM)
if (!hasBrowser)
  process.stderr.write(`SKIPPED: no browser at ${CHROMIUM}, so the console was not tested\n`)

/** The admin token of the gateway. */
export const TOKEN = 'token-of-the-admin'
/** A token that may only read. */
export const VIEWER = 'token-of-the-dashboard'
/** Where pictures go. They are taken where the variable SHOTS is set: one of a wide page takes a fifth of a second. */
const SHOTS = join(import.meta.dirname, 'shots')

/**
 * What the browser does without. A later list replaces that of Playwright, so this one begins with it. The last two are pages
 * of the browser's own below its address line: it loads both for each window, for one second of a processor.
 */
const WITHOUT = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
]

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Models that cost different amounts, so that plots and shares have something to show. */
const OTHER_MODELS = {
  'mock/large': {
    pricing: { prompt: '0.0000075', completion: '0.0000301', input_cache_read: '0.00000075' },
    capabilities: ['STREAMING'],
    deployments: [{ provider: 'mock', model: 'echo' }],
  },
  'mock/medium': {
    pricing: { prompt: '0.000003', completion: '0.000015' },
    capabilities: ['STREAMING'],
    deployments: [{ provider: 'mock', model: 'echo' }],
  },
  'mock/image': {
    modality: 'image',
    pricing: { image: '0.01' },
    deployments: [{ provider: 'mock', model: 'image' }],
  },
  'mock/ocr': {
    modality: 'ocr',
    pricing: { page: '0.001' },
    deployments: [{ provider: 'mock', model: 'ocr' }],
  },
  'mock/speech': {
    modality: 'speech',
    pricing: { character: '0.00001' },
    deployments: [{ provider: 'mock', model: 'speech' }],
  },
  'mock/transcription': {
    modality: 'transcription',
    pricing: { second: '0.0001' },
    deployments: [{ provider: 'mock', model: 'transcription' }],
  },
  'mock/embedding': {
    modality: 'embedding',
    pricing: { prompt: '0.0000001' },
    deployments: [{ provider: 'mock', model: 'embedding' }],
  },
} satisfies UserConfig['models']

/** How long a page waits for what never comes: a slow machine has to find all that does. */
const PATIENCE_MS = 120_000

/** The machine's browser. */
function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-dev-shm-usage', `--disable-features=${WITHOUT.join(',')}`],
  })
}

/** Opens pages, each of its own session, in a browser that ends with the test. */
export async function browserOfTest(): Promise<() => Promise<Page>> {
  const browser = await launch()
  onTestFinished(() => browser.close())
  return async () => {
    const page = await browser.newPage()
    page.context().setDefaultTimeout(PATIENCE_MS)
    return page
  }
}

/** What a page must not do, whatever a test does with it. */
export interface Watched {
  readonly page: Page
  /** Errors of the console and of scripts, violations of the content policy, requests to other hosts. */
  readonly faults: string[]
}

/** How a page is opened. */
export interface Visit {
  /** Signs it in; undefined does not. That of the admin by default. */
  readonly token?: string | undefined
  readonly width?: number
  readonly theme?: 'light' | 'dark'
  /** Whether the guided start is shown where no vendor is set up; not by default. */
  readonly isNew?: boolean
  /** Another address that it may lead to, such as a payment page. */
  readonly leadsTo?: string
  /** Pixels of a picture for each of the page. */
  readonly scale?: number
  /** Language, and time zone, of the browser. */
  readonly locale?: string
  readonly zone?: string
}

/** The machine's browser, in front of a gateway. */
export class Visitors implements AsyncDisposable {
  readonly url: string
  readonly #browser: Browser
  /** Faults of every page that was opened. */
  readonly #faults: (readonly string[])[] = []

  private constructor(url: string, browser: Browser) {
    this.url = url
    this.#browser = browser
  }

  static async open(url: string): Promise<Visitors> {
    return new Visitors(url, await launch())
  }

  /** A page of its own session. */
  async page(visit: Visit = {}): Promise<Watched> {
    const { width = 1440, theme = 'light', scale = 1, isNew = false } = visit
    const token = 'token' in visit ? visit.token : TOKEN
    const context = await this.#browser.newContext({
      viewport: { width, height: 900 },
      deviceScaleFactor: scale,
      colorScheme: theme,
      reducedMotion: 'reduce',
      ...(visit.locale && { locale: visit.locale }),
      ...(visit.zone && { timezoneId: visit.zone }),
      baseURL: this.url,
    })
    context.setDefaultTimeout(PATIENCE_MS)
    if (token !== undefined) {
      const answer = await context.request.post('/admin/session', {
        headers: { 'sec-fetch-site': 'same-origin' },
        data: { token },
      })
      if (!answer.ok()) throw new Error(`sign-in: ${answer.status()} ${await answer.text()}`)
    }
    const page = await context.newPage()
    const faults = watch(page, [this.url, ...(visit.leadsTo ? [visit.leadsTo] : [])])
    await page.exposeFunction('violated', (text: string) => faults.push(`policy: ${text}`))
    await page.addInitScript(reportViolations)
    if (!isNew) await page.addInitScript(dismissStart)
    this.#faults.push(faults)
    return { page, faults }
  }

  /** Closes the browser. @throws Error when a page, of any test, did what its policy forbids or asked another host */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
    const left = this.#faults.flat().filter((fault) => /^(?:policy:|request to) /.test(fault))
    if (left.length > 0) throw new Error(left.join('\n'))
  }
}

/** A gateway for the tests of a file, with a browser in front of it; neither is there where the machine has no browser. */
export function browsed(open: (folder: string) => Promise<TestGateway>) {
  const folder = mkdtempSync(join(tmpdir(), 'console-'))
  const both = {} as { gateway: TestGateway; visitors: Visitors }
  beforeAll(async () => {
    if (!hasBrowser) return
    both.gateway = await open(folder)
    both.visitors = await Visitors.open(both.gateway.url)
  })
  afterAll(async () => {
    await both.visitors?.[Symbol.asyncDispose]()
    await both.gateway?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return both
}

/** A gateway of this process, and a browser. */
export class Stage implements AsyncDisposable {
  readonly gateway: TestGateway
  readonly #visitors: Visitors
  readonly #folder: string

  private constructor(gateway: TestGateway, visitors: Visitors, folder: string) {
    this.gateway = gateway
    this.#visitors = visitors
    this.#folder = folder
  }

  static async open(more: UserConfig = {}): Promise<Stage> {
    const folder = mkdtempSync(join(tmpdir(), 'console-'))
    const config: UserConfig = {
      ...MOCK_CONFIG,
      state: { driver: 'file', path: folder },
      log: { path: join(folder, 'log'), content: { enabled: true } },
      // What a test makes happen in earlier weeks comes too late to the request log.
      alerts: { off: ['log.dropped'] },
      admin: { token: TOKEN, tokens: [{ name: 'dashboard', token: VIEWER, role: 'viewer' }] },
      ...more,
      models: { ...MOCK_CONFIG.models, ...OTHER_MODELS, ...(more.models as object) },
    }
    const gateway = await createTestGateway(config, folder)
    return new Stage(gateway, await Visitors.open(gateway.url), folder)
  }

  /** A page of its own session. */
  page(visit: Visit = {}): Promise<Watched> {
    return this.#visitors.page(visit)
  }

  /** A request of the operator. */
  admin(method: string, path: string, body?: unknown) {
    return this.gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#visitors[Symbol.asyncDispose]()
    await this.gateway.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Violations of accessibility, with the elements: WCAG 2.2 AA with the size of targets, and best practice. */
export async function violationsOf(page: Page): Promise<string[]> {
  // Evaluated by the browser's tools, which the policy of the page does not bind.
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(AXE)
  const { violations } = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: Violation[] }> }
    }
    return axe.run({ resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } })
  })
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .map(({ html, failureSummary }) => `${html} ${failureSummary ?? ''}`)
        .slice(0, 3)
        .join(' | ')}`,
  )
}

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** How far the page is wider than its window. */
export async function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = (
      globalThis as unknown as {
        document: { documentElement: { scrollWidth: number; clientWidth: number } }
      }
    ).document.documentElement
    return scrollWidth - clientWidth
  })
}

/** The most KiB of a first visit of the overview, compressed: all files, and the answers that they ask for. */
export const MOST_KIB = 200

/** What a page loads until it stands, as it comes over the network. */
export async function weightOf(page: Page, path: string) {
  const tools = await page.context().newCDPSession(page)
  await tools.send('Network.enable')
  const sizes: number[] = []
  tools.on('Network.loadingFinished', ({ encodedDataLength }) => sizes.push(encodedDataLength))
  await page.goto(path)
  await settled(page)
  await tools.detach()
  const kib = sizes.reduce((sum, size) => sum + size, 0) / 1024
  process.stdout.write(`WEIGHT of ${path}: ${kib.toFixed(1)} KiB in ${sizes.length} answers\n`)
  return { kib, answers: sizes.length }
}

/** Resolves when nothing is loading, nothing says that it is, and every plot is drawn. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1, .notice').first().waitFor({ state: 'attached' })
  await page.waitForFunction(() => {
    const { document } = globalThis as unknown as {
      document: { querySelector(selector: string): unknown }
    }
    // A plot brings its library along after the screen is there.
    return !document.querySelector('.skeleton, .plot:not(:has(canvas))')
  })
  // What the last answer changed is drawn.
  await page.evaluate(() => {
    const { requestAnimationFrame: next } = globalThis as unknown as {
      requestAnimationFrame(callback: () => void): void
    }
    return new Promise<void>((resolve) => next(() => next(resolve)))
  })
}

/**
 * Which of these texts are in a string that the page's scripts can reach, after what they dropped was collected. The test has to
 * find elements by locators: `waitForSelector` keeps what it finds, and with an element all that was around it.
 */
export async function keptOf(page: Page, texts: readonly string[]): Promise<string[]> {
  const tools = await page.context().newCDPSession(page)
  const chunks: string[] = []
  tools.on('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => chunks.push(chunk))
  await tools.send('HeapProfiler.enable')
  await tools.send('HeapProfiler.collectGarbage')
  await tools.send('HeapProfiler.takeHeapSnapshot')
  await tools.detach()
  const heap = chunks.join('')
  return texts.filter((text) => heap.includes(text))
}

/** A picture for human eyes, where they are wanted. It is never compared. */
export async function shoot(page: Page, name: string): Promise<void> {
  if (!process.env.SHOTS) return
  const file = join(SHOTS, `${name}.png`)
  mkdirSync(dirname(file), { recursive: true })
  await page.screenshot({ path: file })
}

/** Runs in the page: the operator prefers not to be guided, beside what is preferred otherwise. */
function dismissStart(): void {
  const { localStorage } = globalThis as unknown as {
    localStorage: {
      getItem(name: string): string | null
      setItem(name: string, text: string): void
    }
  }
  const preferences = JSON.parse(localStorage.getItem('sluicegate.console') ?? '{}')
  localStorage.setItem('sluicegate.console', JSON.stringify({ started: true, ...preferences }))
}

/** Runs in the page: tells what the content policy kept from it. */
function reportViolations(): void {
  const { document, violated } = globalThis as unknown as {
    document: {
      addEventListener(type: string, listener: (event: Record<string, unknown>) => void): void
    }
    violated(text: string): void
  }
  document.addEventListener('securitypolicyviolation', (event) =>
    violated(`${String(event.effectiveDirective)} ${String(event.blockedURI)}`),
  )
}

function watch(page: Page, origins: readonly string[]): string[] {
  const faults: string[] = []
  page.on('console', (message) => {
    // That the API refused something is an answer, which the screen shows; the browser notes it by itself.
    const isRefusal = message
      .text()
      .startsWith('Failed to load resource: the server responded with a status of 4')
    if (['error', 'warning'].includes(message.type()) && !isRefusal) faults.push(message.text())
  })
  page.on('response', (response) => {
    const path = new URL(response.url()).pathname
    if (response.status() >= 400 && path.startsWith('/console'))
      faults.push(`${response.status()} ${path}`)
  })
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('request', (request) => {
    const url = request.url()
    const isOwn = origins.some((one) => url.startsWith(one)) || /^(data|blob):/.test(url)
    if (!isOwn) faults.push(`request to ${url}`)
  })
  return faults
}
