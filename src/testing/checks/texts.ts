/** Checks of the methods that work on texts, where a provider has them: `embed`, `rerank` and `moderate`. */
import { embeddingsOf } from '../../endpoints/embeddings/answer.ts'
import { resultsOf } from '../../endpoints/moderations/normal-form.ts'
import { rankedOf } from '../../endpoints/rerank/answer.ts'
import { UpstreamFailure } from '../../errors/errors.ts'
import type { EmbeddingResult, ModerationResult, RerankResult } from '../../plugin.ts'
import { NO_UPSTREAM, type Fixture } from '../fixture.ts'
import { describeError, skipped, toCheck, type Check, type CheckRun } from '../report.ts'
import type { TestRequest } from '../requests.ts'
import type { Ask } from './failures.ts'

interface TextMethod {
  readonly name: 'embed' | 'rerank' | 'moderate'
  readonly input: object
  readonly answer: object
  /** Reads the answer as the gateway does. @throws UpstreamFailure for an impossible one */
  read(answer: any): unknown
}

const TEXTS = ['Hello there', 'And good bye']
const QUERY = { query: 'Hello', documents: TEXTS }
const METHODS: readonly TextMethod[] = [
  {
    name: 'embed',
    input: { input: TEXTS, encoding_format: 'float' },
    answer: {
      object: 'list',
      data: TEXTS.map((_, index) => ({ object: 'embedding', index, embedding: [0.25, -0.5] })),
      usage: { prompt_tokens: 6, total_tokens: 6 },
    },
    read: (answer: EmbeddingResult) => embeddingsOf(answer, { count: 2, format: 'float' }),
  },
  {
    name: 'rerank',
    input: QUERY,
    answer: {
      results: TEXTS.map((_, index) => ({ index, relevance_score: 0.9 - index })),
      usage: { total_tokens: 9 },
    },
    read: (answer: RerankResult) => rankedOf(answer, QUERY, false),
  },
  {
    name: 'moderate',
    input: { input: TEXTS },
    answer: { results: TEXTS.map(() => ({ flagged: false, categories: {}, category_scores: {} })) },
    read: (answer: ModerationResult) => resultsOf(answer, { model: 'kit', count: 2 }),
  },
]

/** Checks these methods with a vendor of the common form. @param like has model and deployment options */
export async function checkTexts(
  fixture: Fixture,
  like: TestRequest,
  run: CheckRun,
): Promise<void> {
  for (const method of offeredBy(fixture)) {
    await run.run('texts', method.name, () => checkAnswer(fixture, method, like))
  }
}

export function textAsks(fixture: Fixture, like: TestRequest): Readonly<Record<string, Ask>> {
  return Object.fromEntries(
    offeredBy(fixture).map((method) => [method.name, () => ask(fixture, method, like)]),
  )
}

function offeredBy({ provider }: Fixture): readonly TextMethod[] {
  return METHODS.filter(({ name }) => provider.methods.includes(name))
}

async function ask({ provider }: Fixture, { name, input, read }: TextMethod, like: TestRequest) {
  return provider.whole(name, { ...like, input }, read)
}

async function checkAnswer(
  fixture: Fixture,
  method: TextMethod,
  like: TestRequest,
): Promise<Check> {
  const { vendor } = fixture
  const before = vendor.requests.length
  vendor.answer({
    headers: { 'content-type': 'application/json' },
    pieces: [JSON.stringify(method.answer)],
  })
  const { error } = await ask(fixture, method, like)
  const requests = vendor.requests.length - before
  if (error === undefined) {
    return toCheck('texts', method.name, [], requests === 0 ? [NO_UPSTREAM] : [])
  }
  const isOtherForm = UpstreamFailure.is(error) && requests > 0
  return isOtherForm
    ? skipped('texts', method.name, 'it does not read the form of the sample')
    : toCheck('texts', method.name, [describeError(error)])
}
