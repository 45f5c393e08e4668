import type { Lexicon } from '../cues.ts'

export const es: Lexicon = {
  language: 'es',
  asks: `
    cómo puedo, cómo hago, cómo, puedes, podrías, puede, ayúdame, por favor, necesito, quiero,
    quisiera, dame, muéstrame, explica*, debo, debería, puedo, tengo que`,
  against: `
    quién inventó, quién escribió, quién fue, historia de, museo, horario, película, novela,
    etimología, equipo de fútbol`,
  operators: `por, más, menos, dividido entre, dividido por, entre, multiplicado por`,
  code: {
    asks: `
      escribe, escribir, crea, crear, haz, hago, corrige, arregla, depura, programa, optimiza,
      traduce, convierte, implementa, genera, refactoriza, explica*, añade, prueba`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algoritmo*,
      código fuente, bucle*, consulta sql, expresión regular, fórmula de excel, script,
      base de datos, compilador, página web, pruebas unitarias, arreglo`,
    loose: `
      función, programa, python, java, código, clase, variable, consulta, macro, lista, error,
      fórmula, archivo`,
    strong: `
      escribe una función, escribe un programa, escribe un script, este código, mi código,
      en python, en javascript, en java, consulta sql, código python, código en, fórmula de excel,
      bucle for, expresión regular`,
    against: `
      código postal, código de vestimenta, código penal, código civil, serpiente*, boda`,
  },
  math: {
    asks: `
      calcula*, resuelve*, resolver, demuestra*, simplifica*, deriva, integra, cuánto es,
      cuánto son, cuántos, cuál es, halla, encuentra, factoriza*`,
    topics: `
      ecuación, ecuaciones, derivada*, integral*, raíz cuadrada, fracción, fracciones, triángulo*,
      círculo, rectángulo*, cuadrado de lado, perímetro, área de, área del, radio, diámetro,
      probabilidad, matriz, polinomio*, porcentaje, tarea de matemáticas, problema de matemáticas,
      matemáticas, promedio de, mediana, volumen de, teorema, hipotenusa`,
    loose: `ángulo, lado, promedio, números`,
    strong: `
      resuelve la ecuación, resuelve esta ecuación, raíz cuadrada de, la derivada de, el área de,
      área de un, área del triángulo, ecuación de segundo grado, teorema de pitágoras, cuánto es el`,
    against: `matemático, jugadores, habitantes, círculo de amigos`,
  },
  roleplay: {
    asks: `
      finge, haz como, imagina que eres, eres, sé, actúa, actúa como, habla como, háblame,
      responde como, juega`,
    topics: `
      pirata*, caballero*, vampiro*, mago*, bruja*, dragón*, profesor de magia, princesa*, robot,
      detective, elfo*, novia, novio, fantasma*, extraterrestre*, rey, reina, mayordomo, demonio*,
      hechicero*`,
    loose: `personaje, abuela, amigo, papel de`,
    strong: `
      finge ser, finge que eres, haz como que eres, juego de rol, juguemos a, juega el papel,
      interpreta el papel, imagina que eres, ahora eres, a partir de ahora eres, sé mi novia,
      sé mi novio, actúa como mi, no salgas del personaje`,
    against: `actor, actriz, corrector, traductor, profesor, quién actúa, juego de mesa`,
  },
  medical: {
    asks: `
      puedo, debo, qué puedo tomar, qué tomo, qué hago, qué debo, le doy, cuánto, cuánta, tengo,
      me duele, me siento, mi hijo tiene, mi hija tiene, mi bebé tiene, es peligroso, tratar, curar,
      tomar, dosis de, qué medicamento, cuál es la dosis`,
    leads: `mi, mis, para, contra`,
    topics: `
      dolor de cabeza, dolor de estómago, dolor de espalda, dolor de garganta, dolor de pecho,
      me duele la, me duele el, migraña*, fiebre, tos, náusea*, vómito*, diarrea, mareo*, mareado,
      sarpullido, ibuprofeno, paracetamol, aspirina, antibiótico*, medicamento*, pastilla*,
      presión alta, presión arterial, análisis de sang*, síntoma*, infección, alergia*, diabetes,
      cáncer, embaraz*, depresión, gripe, varicela, dosis, efectos secundarios, píldora, quemadura,
      pomada`,
    loose: `dolor, cabeza, estómago, garganta, pecho, cansad*`,
    strong: `
      me duele la cabeza, efectos secundarios de, dosis de, tengo fiebre, tiene fiebre`,
    against: `inventó, hospital más cercano, computadora, ordenador`,
  },
  legal: {
    asks: `
      puedo, puede mi, puede el, me puede, qué derechos, es legal, es ilegal, tengo derecho,
      tengo que, debo, cuáles son mis derechos, qué puedo hacer, redacta*, escribe, se niega,
      cuánto tiempo`,
    topics: `
      piso, casero, arrendador, inquilino*, alquiler, fianza, contrato de alquiler,
      contrato de trabajo, contrato, despedir*, despido, indemnización, divorcio, custodia,
      pensión alimenticia, testamento, herencia, abogado, demandar, demanda, juicio, multa,
      daños y perjuicios, responsabilidad civil, derechos de autor, condiciones de uso, aviso legal,
      poder notarial, desahuci*, desalojo, subarrendar, denuncia*, libertad condicional, mi jefe`,
    loose: `derechos, tribunal, ley, vecino, cláusula, reembolso`,
    strong: `
      mis derechos, es legal, es ilegal, redacta un contrato, contrato de alquiler, despedirme,
      incumplimiento de contrato, poner una denuncia, puedo demandar, devolver la fianza`,
    against: `ley de la gravedad, constitución, ley de murphy, ley de newton`,
  },
  'financial-advice': {
    asks: `
      debo, debería, conviene, vale la pena, es buen momento, dónde invierto, dónde pongo,
      cómo invierto, cuánto debo, qué, cuál, recomiend*, aconsej*, me conviene, deberías`,
    topics: `
      acciones, bolsa, etf, bonos, invertir, inversión, inversiones, bitcoin, cripto*, ahorros,
      cuenta de ahorro, plan de pensiones, jubilación, hipoteca, préstamo, crédito, impuestos,
      desgravar, cartera, dividendos, deudas, seguro de vida, fondo indexado, fondos, inmobiliari*`,
    loose: `dinero, comprar, vender, alquilar, oro, casa, ahorrar`,
    strong: `
      debería invertir, debo invertir, comprar o alquilar, alquilar o comprar, qué acciones,
      invertir mi dinero, invertir en bolsa, pagar menos impuestos, dónde invertir, en qué invertir`,
    against: `bolsa de valores, bolsa de plástico, comprar pan`,
  },
  'personal-data': {
    asks: `
      busca*, encuentra*, averigua*, dame, dime, dónde vive, de quién es, cuál es, quién es,
      localiza*, identifica*, qué edad tiene`,
    leads: `mi, su, sus, nací, nacido, vive en`,
    topics: `
      dirección de mi, dirección de su, dirección personal, número de teléfono de, teléfono de mi,
      teléfono privado, exnovi*, mi ex, mi vecin*, mi compañer*, fecha de nacimiento,
      historial médico, matrícula, número de la seguridad social, dni de, su dirección, su teléfono,
      dirección de casa`,
    loose: `dirección, número, teléfono, vive, vecino`,
    strong: `
      me llamo, nací el, vivo en la calle, dónde vive mi, dirección de mi, teléfono de mi,
      fecha de nacimiento:, de quién es este número`,
    against: `
      oso*, animal*, presidente, biblioteca, ayuntamiento, museo, atención al cliente, embajada,
      estación`,
  },
}
