/** Segments of a transcript, made from words with times. */
import type { TranscriptSegment, TranscriptWord } from '../../plugin.ts'

/** The end of a sentence, in any script that marks it. */
const SENTENCE_END = /[.!?…。！？।؟]["'”’»)\]]*$/
/** Seconds of silence that end a segment. */
const PAUSE = 1.5
const LONGEST = 12

/** Segments of a text whose words have times. They end with sentences, pauses and speakers. */
export function segmentsFromWords(
  text: string,
  words: readonly TranscriptWord[],
): TranscriptSegment[] {
  const segments: TranscriptSegment[] = []
  const places = placesOf(text, words)
  let first = 0
  words.forEach((word, index) => {
    const next = words[index + 1]
    const goesOn =
      next !== undefined &&
      next.speaker === word.speaker &&
      next.start - word.end < PAUSE &&
      word.end - words[first]!.start < LONGEST &&
      !SENTENCE_END.test(word.word)
    if (goesOn) return
    const { start, speaker } = words[first]!
    const segmentText = places
      ? text.slice(places[first], places[index]! + word.word.length)
      : words
          .slice(first, index + 1)
          .map((one) => one.word)
          .join(' ')
    segments.push({
      start,
      end: word.end,
      text: segmentText,
      ...(speaker !== undefined && { speaker }),
    })
    first = index + 1
  })
  return segments
}

/** The offset of each word in the text, whose blanks and punctuation count; undefined if a word is missing. */
function placesOf(text: string, words: readonly TranscriptWord[]): number[] | undefined {
  const places: number[] = []
  let from = 0
  for (const { word } of words) {
    const place = text.indexOf(word, from)
    if (place < 0) return undefined
    places.push(place)
    from = place + word.length
  }
  return places
}
