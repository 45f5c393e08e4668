/**
 * Grounding metadata as annotations: one per source and passage, and one without a position per source that no passage
 * cites.
 * @param text the whole answer; Google's offsets count its UTF-8 bytes, annotations count code points
 */
export function toAnnotations(metadata: any, text: string): object[] {
  const sources: any[] = list(metadata.groundingChunks).map(
    (chunk) => chunk?.web ?? chunk?.retrievedContext ?? chunk?.maps,
  )
  const bytes = Buffer.from(text)
  const placed = list(metadata.groundingSupports).flatMap(({ segment, groundingChunkIndices }) => {
    const start = pointsIn(bytes, segment?.startIndex)
    const end = pointsIn(bytes, segment?.endIndex)
    return list(groundingChunkIndices).map((index) => ({ source: sources[index], start, end }))
  })
  const named = new Set(placed.map(({ source }) => source))
  const others = sources.filter((source) => !named.has(source))
  return [...placed, ...others.map((source) => ({ source, start: 0, end: 0 }))]
    .filter(({ source }) => typeof source?.uri === 'string')
    .map(({ source, start, end }) => ({
      type: 'url_citation',
      url_citation: {
        url: source.uri,
        title: source.title ?? '',
        start_index: start,
        end_index: end,
      },
    }))
}

/** Number of searches that Google ran; undefined for none. */
export function searchesIn(metadata: any): number | undefined {
  return list(metadata.webSearchQueries).length || undefined
}

function pointsIn(bytes: Buffer, end: unknown): number {
  return typeof end === 'number' ? Array.from(bytes.toString('utf8', 0, end)).length : 0
}

function list(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}
