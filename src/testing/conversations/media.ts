/** Conversations with images, documents and sound. */
import { ask, call, fn, result, say, text, TOOLS, type ConversationRequest } from './build.ts'

/** A PNG image of one pixel, as base64. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const GIF = 'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'
const PDF = 'JVBERi0xLjQKJSVFT0YK'
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA='
const WORDS = 'SGVsbG8u'

/** Files behind the addresses in the table: their media types and their bytes as base64. */
export const FILES_AT: Readonly<Record<string, readonly [mediaType: string, base64: string]>> = {
  'https://files.example/cat.png': ['image/png', PNG],
  'https://files.example/cat': ['image/png', PNG],
  'https://files.example/paper.pdf': ['application/pdf', PDF],
  'https://files.example/paper?id=1': ['application/octet-stream', PDF],
}

const [IMAGE_URL, BARE_IMAGE_URL, PDF_URL, BARE_PDF_URL] = Object.keys(FILES_AT) as [
  string,
  string,
  string,
  string,
]
const PNG_DATA = `data:image/png;base64,${PNG}`
const PDF_DATA = `data:application/pdf;base64,${PDF}`

export const MEDIA = {
  'image as data': { messages: [ask([text('What is it?'), image(PNG_DATA)])] },
  'image without a text': { messages: [ask([image(PNG_DATA)])] },
  'image of another type than it says': {
    messages: [ask([text('What is it?'), image(`data:image/jpeg;base64,${PNG}`)])],
  },
  'GIF image': { messages: [ask([text('What is it?'), image(`data:image/gif;base64,${GIF}`)])] },
  'image that is no image': {
    messages: [ask([text('What is it?'), image(`data:image/tiff;base64,${WORDS}`)])],
  },
  'image at an address': { messages: [ask([text('What is it?'), image(IMAGE_URL)])] },
  'image at an address without an extension': {
    messages: [ask([text('What is it?'), image(BARE_IMAGE_URL)])],
  },
  'image in low detail': {
    messages: [ask([text('What is it?'), image(PNG_DATA, { detail: 'low' })])],
  },
  'images in several details': {
    messages: [
      ask([
        text('Which?'),
        image(PNG_DATA, { detail: 'low' }),
        image(PNG_DATA, { detail: 'original' }),
        image(PNG_DATA, { detail: 'auto' }),
      ]),
    ],
  },
  'image as the result of a call': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'weather')]),
      result('call_1', [text('A map.'), image(PNG_DATA)]),
    ],
    tools: TOOLS,
  },
  'only an image as the result of a call': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'weather')]),
      result('call_1', [image(IMAGE_URL)]),
    ],
    tools: TOOLS,
  },
  'image of an assistant': {
    messages: [ask('Draw.'), say('assistant', [text('Here.'), image(PNG_DATA)]), ask('Nice.')],
  },
  'image in a system message': {
    messages: [say('system', [text('Our logo.'), image(PNG_DATA)]), ask('Hello?')],
  },
  'PDF as data': { messages: [ask([text('What is it?'), file(PDF_DATA, 'a paper_v1.pdf')])] },
  'PDF without a text': { messages: [ask([file(PDF_DATA, 'paper.pdf')])] },
  'PDF as bare base64': { messages: [ask([text('What is it?'), file(PDF, 'paper.pdf')])] },
  'PDF as bare base64 without a name': { messages: [ask([text('What is it?'), file(PDF)])] },
  'PDF at an address': {
    messages: [ask([text('What is it?'), file(PDF_URL, 'paper.pdf')])],
  },
  'PDF at an address without an extension': {
    messages: [ask([text('What is it?'), file(BARE_PDF_URL)])],
  },
  'two PDFs of one name': {
    messages: [
      ask([text('One.'), file(PDF_DATA, 'paper.pdf')]),
      ask([text('Two.'), file(PDF_DATA, 'paper.pdf')]),
    ],
  },
  'text file': {
    messages: [ask([text('What is it?'), file(`data:text/plain;base64,${WORDS}`, 'note.txt')])],
  },
  'text file as bare base64': { messages: [ask([text('What is it?'), file(WORDS, 'note.txt')])] },
  'image as a file': { messages: [ask([text('What is it?'), file(PNG_DATA, 'cat.png')])] },
  'file of a type that is not read': {
    messages: [ask([text('What is it?'), file(`data:application/zip;base64,UEsDBA==`, 'a.zip')])],
  },
  'PDF as the result of a call': {
    messages: [
      ask('Weather?'),
      call([fn('call_1', 'weather')]),
      result('call_1', [file(PDF_DATA, 'map.pdf')]),
    ],
    tools: TOOLS,
  },
  sound: {
    messages: [
      ask([text('Listen.'), { type: 'input_audio', input_audio: { data: WAV, format: 'wav' } }]),
    ],
  },
} satisfies Record<string, ConversationRequest>

function image(url: string, more: object = {}): object {
  return { type: 'image_url', image_url: { url, ...more } }
}

function file(file_data: string, filename?: string): object {
  return { type: 'file', file: { file_data, ...(filename === undefined ? {} : { filename }) } }
}
