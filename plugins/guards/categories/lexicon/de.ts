import type { Lexicon } from '../cues.ts'

export const de: Lexicon = {
  language: 'de',
  asks: `
    wie kann ich, wie mache ich, wie erstelle ich, kannst du, können sie, könntest du, hilf mir,
    bitte, ich brauche, ich möchte, ich will, gib mir, zeig mir, erklär mir, erkläre, soll ich,
    darf ich, muss ich, was soll ich, was hilft`,
  against: `
    wer hat, wer war, wann wurde, wer erfand, wer spielt, geschichte der, museum, öffnungszeiten,
    geöffnet, was bedeutet das wort, wie heißt der film, roman`,
  operators: `mal, plus, minus, geteilt durch, dividiert durch, hoch`,
  code: {
    asks: `
      schreib*, erstell*, programmier*, debugge*, korrigier*, behebe, optimier*, übersetze,
      implementier*, refaktor*, teste, generier*, erklär*, warum kompiliert, warum funktioniert,
      führe`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algorithm*,
      datenbankabfrage*, schleife*, quellcode, quelltext, webseite, excel-formel, shell-skript,
      bash-skript, python-skript, unit-test*, java-klasse*, kompilier*, programmcode, json-datei,
      linux-befehl*, variable*, array`,
    loose: `
      skript, script, funktion*, programm, python, java, code, methode, klasse, abfrage,
      fehlermeldung, makro, formel, liste, listen, datenbank, web-app, parser, dateien`,
    strong: `
      schreibe code, meinen code, diesen code, dieser code, den code, in python, in javascript,
      python-code, sql-abfrage*, mein programm, funktion schreiben, regulärer ausdruck,
      regulären ausdruck, excel-formel*, syntaxfehler, nullpointer*`,
    against: `
      postleitzahl*, dresscode, kleiderordnung, vorwahl, drehbuch, theaterprogramm, fernsehprogramm,
      strafgesetz*`,
  },
  math: {
    asks: `
      berechne*, rechne*, löse die, löse x, löse nach, löse folgende, beweise*, bestimme*,
      vereinfache*, leite, integriere, wie viel ist, wieviel ist, wie viel sind, was ist, was sind,
      wie groß ist, wie viel ergibt, ermittle`,
    topics: `
      gleichung*, flächeninhalt, ableitung*, integral*, wurzel aus, quadratwurzel, bruch, brüche,
      dreieck*, kreis*, rechteck*, umfang, radius, durchmesser, wahrscheinlichkeit, matrix,
      polynom*, prozent von, prozent, mathehausaufgabe*, mathe, matheaufgabe*, dreisatz, mittelwert,
      median, volumen, hypotenuse, nullstelle*`,
    loose: `winkel, seite, grundseite, durchschnitt, prozent, zahlen`,
    strong: `
      flächeninhalt eine*, löse die gleichung, wurzel aus, ableitung von, ableitung der,
      stammfunktion, beweise dass, satz des pythagoras, quadratische gleichung`,
    against: `einwohner, mathematiker*, dreiecksbeziehung`,
  },
  roleplay: {
    asks: `
      spiel*, tu so, stell dir vor, du bist, sei, sprich wie, rede wie, antworte als, antworte wie,
      benimm dich`,
    topics: `
      pirat*, ritter*, vampir*, zauberer*, hexe*, drache*, prinzessin, roboter*, detektiv*, elf*,
      freundin, geist, außerirdisch*, zwerg*, könig*, butler, dämon*, magier*`,
    loose: `rolle, figur, charakter, oma, großmutter, mutter, freund`,
    strong: `
      tu so als, tue so, rollenspiel, lass uns ein rollenspiel, spiel die rolle, spiele die rolle,
      übernimm die rolle, du bist jetzt, ab jetzt bist du, in deiner rolle bleib*,
      bleib in der rolle, stell dir vor du bist, sei meine freundin, sei mein freund`,
    against: `
      brettspiel*, schauspieler*, rolle spielte, rolle spielen, lektor*, übersetzer*, lehrer,
      spielte die`,
  },
  medical: {
    asks: `
      darf ich, kann ich, soll ich, wie viel, wieviel, was hilft, was tun, was kann ich, ich habe,
      habe ich, mir ist, mein kind hat, mein sohn hat, meine tochter hat, tut weh, behandel*,
      einnehmen, nehmen, seit tagen, welches medikament, welche dosis`,
    leads: `mein, meine, meinem, gegen`,
    topics: `
      kopfschmerz*, bauchschmerz*, rückenschmerz*, halsschmerz*, zahnschmerz*, schmerzen, fieber,
      husten, schnupfen, ausschlag, übelkeit, erbrechen, durchfall, schwindel*, ibuprofen,
      paracetamol, aspirin, antibiotik*, tablette*, medikament*, blutdruck, blutwert*, diagnose,
      symptom*, entzünd*, allergi*, diabetes, krebs, schwanger*, depression*, grippe, windpocken,
      migräne, dosis, dosierung, nebenwirkung*, pille, muttermal, verbrannt, salbe`,
    loose: `brust, arzt, schlafen, blut, hand`,
    strong: `
      nebenwirkungen von, dosierung von, welche symptome, was hilft gegen kopfschmerz*`,
    against: `apotheke geöffnet, krankenhausserie, computer*`,
  },
  legal: {
    asks: `
      darf ich, darf mein, kann mein, kann ich, muss ich, ist es erlaubt, ist es legal,
      ist es strafbar, was kann ich tun, welche rechte, habe ich anspruch, verfass*, schreib*,
      erstell*, setze, prüfe, haftet, haftbar, wie lange, einfach`,
    topics: `
      vermieter*, mieter*, mietvertrag*, kaution, untervermiet*, kündig*, kündigung*,
      kündigungsfrist*, arbeitgeber*, arbeitsvertrag*, abmahnung*, anwalt, rechtsanwalt, klage,
      verklagen, scheidung*, sorgerecht, unterhalt, testament, erbe, erbrecht, bußgeld*,
      strafanzeige, schadensersatz, gewährleistung, widerruf*, vertrag*, agb, datenschutzerklärung,
      vollmacht, urheberrecht*, abfindung*, haftung, mieterhöhung*, polizei`,
    loose: `recht, rechte, gericht, miete, frist, garantie, nachbar*, wohnung`,
    strong: `
      meine rechte, welche rechte habe, vertrag aufsetzen, mietvertrag erstell*, ist es strafbar,
      ist es legal, rechtlich erlaubt, anspruch auf, wohnung untervermieten, mir kündigen,
      kaution nicht zurück*, schmerzensgeld`,
    against: `grundgesetz, verabschiedet, murphys gesetz, gericht kochen, rezept`,
  },
  'financial-advice': {
    asks: `
      soll ich, sollte ich, soll man, lohnt es sich, lohnt sich, welche, welchen, wie viel sollte,
      wo soll ich, wie lege ich, wie soll ich, empfiehl*, würdest du, ist jetzt, jetzt, du solltest,
      ist mein`,
    topics: `
      aktien, etf, etfs, fonds, anleihen, depot, bitcoin, krypto*, investier*, geldanlage*,
      tagesgeld*, festgeld*, altersvorsorge, rente, rentenversicherung, riester*, kredit, hypothek*,
      baufinanzierung, bausparvertrag, versicherung*, lebensversicherung, steuern sparen,
      steuererklärung, absetzen, sparplan, ersparnisse, immobilie*, schulden, dividende*,
      umschulden, vermögen`,
    loose: `geld, sparen, kaufen, mieten, verkaufen, zinsen, gold, haus`,
    strong: `
      soll ich jetzt in, geld anlegen, kaufen oder mieten, mieten oder kaufen,
      in aktien investieren, in etfs investieren, welche aktien, steuern sparen,
      von der steuer absetzen`,
    against: `was ist eine aktie, brot, rezept`,
  },
  'personal-data': {
    asks: `
      finde, finden, such*, ermittle, wo wohnt, wie lautet, gib mir, wem gehört, wer ist, heraus,
      spür*, wie alt ist`,
    leads: `meine, meiner, meines, seine, ihre, wohnt, geboren`,
    topics: `
      adresse von, privatadresse, wohnadresse, anschrift von, telefonnummer von, handynummer,
      privatnummer, ex-freund*, exfreund*, geburtsdatum, krankenakte*, kennzeichen, halter,
      personalausweis*, sozialversicherungsnummer, kontonummer von, nachbarn, kollegin,
      seine adresse, ihre adresse`,
    loose: `adresse, telefonnummer, nummer, wohnt, wohne, nachbar`,
    strong: `
      mein name ist, geboren am, ich heiße, wo wohnt meine, wo wohnt mein, ich wohne in der,
      adresse meiner, adresse meines, telefonnummer meine*, wem gehört die nummer,
      wem gehört das kennzeichen`,
    against: `
      weihnachtsmann, bundespräsident*, kanzler*, rathaus*, bibliothek, museum, kundenservice,
      finanzamt*, behörde, tier*`,
  },
}
