/** The files that examples send: an image, a document of a page, a sound. */
import { writeFileSync } from 'node:fs'
import { pdfOf, pngOfPixels } from '../../_documents.ts'
import { toneOf } from '../_media.ts'

writeFileSync('otter.png', pngOfPixels({ width: 8, height: 8 }, new Uint8Array(64)))
writeFileSync('paper.pdf', pdfOf([{ text: 'Sums of rivers', x: 72, y: 700, size: 24 }]))
writeFileSync('meeting.mp3', toneOf(2))
