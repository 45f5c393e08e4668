/** Checks of the list of models that a provider reads from its vendor. */
import { offerProblems } from '../../models/offers.ts'
import type { Fixture } from '../fixture.ts'
import { NO_UPSTREAM, toFakeResponse } from '../fixture.ts'
import { describeError, toCheck, type Check, type CheckRun } from '../report.ts'
import type { RecordedResponse, Transcript } from '../transcripts.ts'
import { checkCancel } from './service.ts'

/** A list in OpenAI's form. */
const SAMPLE: Transcript = {
  name: 'sample-models',
  request: {},
  answer: {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(
      JSON.stringify({
        object: 'list',
        data: ['test-large', 'test/small'].map((id) => ({ id, object: 'model', owned_by: 'kit' })),
      }),
    ),
  },
  expect: { models: ['test-large', 'test/small'] },
}
const WRITE_ONE =
  'it does not read the form of the sample: write a case with "expect": { "models": [...] } and an empty "request"'

/** @param cases lists of the vendor; without one a list in OpenAI's form is tried */
export async function checkModels(
  fixture: Fixture,
  cases: readonly Transcript[],
  run: CheckRun,
): Promise<void> {
  const { provider, vendor, patience } = fixture
  if (!provider.namesModels) return
  for (const one of cases.length > 0 ? cases : [SAMPLE]) {
    await run.run('models', one.name, () => checkList(fixture, one))
  }
  const service = { service: vendor, patience }
  const name = 'the question for the models'
  const resolved = 'it gave a list, although the vendor had not answered'
  const start = (signal: AbortSignal) => provider.models(signal)
  // A provider that asks no vendor has nothing to end.
  if (vendor.requests.length > 0)
    await run.run('models', 'cancel', () =>
      checkCancel(service, { check: 'models', on: 'cancel', name, resolved, start }),
    )
}

async function checkList(fixture: Fixture, { name, answer, expect }: Transcript): Promise<Check> {
  const { vendor } = fixture
  const before = vendor.requests.length
  const { error, models } = await listOf(fixture, answer!)
  const hasAsked = vendor.requests.length > before
  if (error !== undefined) {
    const why = name === SAMPLE.name && hasAsked ? WRITE_ONE : describeError(error)
    return toCheck('models', name, [why])
  }
  const problems = offerProblems(models)
  if (problems.length > 0) return toCheck('models', name, problems)
  if (!hasAsked) return toCheck('models', name, [], [NO_UPSTREAM])
  const ids = (models as readonly { readonly id: string }[]).map(({ id }) => id)
  const [found, expected] = [ids.toSorted().join(', '), expect.models!.toSorted().join(', ')]
  if (found !== expected)
    return toCheck('models', name, [`the models are ${found || 'none'}, expected ${expected}`])
  const { body } = answer!
  const cut = await listOf(fixture, { ...answer!, body: body.subarray(0, body.length / 2) })
  return toCheck(
    'models',
    name,
    cut.error === undefined ? ['the first half of the list passes for the whole of it'] : [],
  )
}

async function listOf({ vendor, provider }: Fixture, answer: RecordedResponse) {
  vendor.answer(toFakeResponse(answer))
  return provider.askedForModels()
}
