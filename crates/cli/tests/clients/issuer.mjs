// An issuer of tokens: signs with the cryptography of Node, which is OpenSSL's.
//
// node issuer.mjs '[{"alg":"ES256","claims":{"sub":"ann"}}]' prints the keys and the tokens. `kid` and `header` change the header,
// `with` signs with the key of another algorithm. The algorithm `none` is not signed; `confused` is HS256 with the RSA public key.
import { createHmac, generateKeyPairSync, sign, constants } from "node:crypto";

const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
const kinds = {
  RS256: { kind: "rsa", hash: "sha256" },
  PS512: { kind: "rsa", hash: "sha512", options: pss },
  ES256: { kind: "p256", hash: "sha256", options: { dsaEncoding: "ieee-p1363" } },
  ES384: { kind: "p384", hash: "sha384", options: { dsaEncoding: "ieee-p1363" } },
  EdDSA: { kind: "ed25519", hash: null },
};
const pairs = {
  rsa: generateKeyPairSync("rsa", { modulusLength: 2048 }),
  p256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  p384: generateKeyPairSync("ec", { namedCurve: "P-384" }),
  ed25519: generateKeyPairSync("ed25519"),
};
const pem = (name) => pairs[name].publicKey.export({ type: "spki", format: "pem" });
const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function signature(alg, text) {
  if (alg === "none") return "";
  if (alg === "confused") return createHmac("sha256", pem("rsa")).update(text).digest("base64url");
  const { kind, hash, options } = kinds[alg];
  return sign(hash, Buffer.from(text), { key: pairs[kind].privateKey, ...options }).toString("base64url");
}

const tokens = JSON.parse(process.argv[2]).map(({ alg, kid, header, claims, with: by }) => {
  const named = alg === "confused" ? "HS256" : alg;
  const text = `${encoded({ alg: named, kid: kid ?? kinds[alg]?.kind, ...header })}.${encoded(claims)}`;
  return `${text}.${signature(by ?? alg, text)}`;
});
const keys = Object.entries(pairs).map(([kid, { publicKey }]) => ({ ...publicKey.export({ format: "jwk" }), kid, use: "sig" }));
console.log(JSON.stringify({ pem: Object.keys(pairs).map(pem).join(""), jwks: { keys }, tokens }));
