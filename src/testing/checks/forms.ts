/** Checks that a question has one answer, whether the client wants it streamed or whole. */
import { choicesIn, differences, usageDifferences } from '../compare.ts'
import { replay, type Case, type Fixture } from '../fixture.ts'
import { toCheck, type Check } from '../report.ts'
import { toTestRequest } from '../requests.ts'
import type { ReceivedRequest } from '../fake-upstream.ts'
import type { Transcript } from '../transcripts.ts'

/**
 * Asks the question of a case in the other form. A vendor that gets the same request gives the same answer, and clients have to
 * get the same; one that gets another request needs a case that shows its other answer.
 * @param cases all of the provider
 */
export async function checkForms(
  fixture: Fixture,
  { transcript, request }: Case,
  cases: readonly Case[],
): Promise<Check> {
  const { provider, vendor } = fixture
  const { name, answer } = transcript
  const before = vendor.requests.length
  const one = await replay(fixture, request, answer!)
  const [sent] = vendor.requests.slice(before)
  const otherRequest = await toTestRequest(provider.plugin, inOtherForm(transcript))
  const since = vendor.requests.length
  const other = await replay(fixture, otherRequest, answer!)
  const [askedNext] = vendor.requests.slice(since)
  // A provider may refuse a form.
  if (!sent || !askedNext) return toCheck('stream off', name, [])
  const streamed = isStreamed(transcript)
  if (isSame(sent, askedNext)) {
    const problems = [
      ...differences({ choices: choicesIn(one.completion) }, other.completion),
      ...usageDifferences(one.usage, other.usage),
    ]
    const how = streamed ? 'not streamed' : 'streamed'
    return toCheck(
      'stream off',
      name,
      problems.map((problem) => `${how}, ${problem}`),
    )
  }
  const shown = cases.some((known) => isStreamed(known.transcript) !== streamed)
  const form = streamed ? 'without "stream"' : 'with "stream": true'
  const problem = `${form} the vendor is asked for another answer, which no case shows; write a case ${form}`
  return toCheck('stream off', name, shown ? [] : [problem])
}

function isStreamed({ request }: Transcript): boolean {
  return request.stream === true
}

function inOtherForm(transcript: Transcript): Transcript {
  const { stream_options: _, ...request } = transcript.request
  return { ...transcript, request: { ...request, stream: !isStreamed(transcript) } }
}

function isSame(one: ReceivedRequest, other: ReceivedRequest): boolean {
  return one.path === other.path && one.body.equals(other.body)
}
