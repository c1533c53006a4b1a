"""Signs golden.json with PyJWT, so that tokens are not only verified by what signed them.

pip install 'pyjwt[crypto]==2.10.1' && python make.py > golden.json

The private keys are thrown away. 2001-09-09 to 2033-05-18 is the time in which the tokens are valid.
"""

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "a-secret-that-is-only-for-tests-and-as-long-as-SHA-512-wants-it-"
CLAIMS = {
    "sub": "ann",
    "iss": "https://issuer.example",
    "aud": ["shop", "api"],
    "nbf": 1_000_000_000,
    "exp": 2_000_000_000,
    "plan": "gold",
    "org": {"id": 7, "tier.name": "premium"},
    "https://shop.example/plan": "silver",
    "admin": True,
    "roles": ["a"],
}
SIGNERS = {
    "rsa": (rsa.generate_private_key(65537, 2048), RSAAlgorithm, "RS256 RS384 RS512 PS256 PS384 PS512"),
    "p256": (ec.generate_private_key(ec.SECP256R1()), ECAlgorithm, "ES256"),
    "p384": (ec.generate_private_key(ec.SECP384R1()), ECAlgorithm, "ES384"),
    "ed25519": (ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm, "EdDSA"),
}

pem, jwks, tokens = {}, [], {}
for name, (key, algorithm, signs) in SIGNERS.items():
    public = key.public_key()
    pem[name] = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    jwks.append({**json.loads(algorithm.to_jwk(public)), "kid": name, "use": "sig"})
    for one in signs.split():
        tokens[one] = jwt.encode(CLAIMS, key, one, headers={"kid": name})
for one in ("HS256", "HS384", "HS512"):
    tokens[one] = jwt.encode(CLAIMS, SECRET, one)
golden = {"secret": SECRET, "pem": pem, "jwks": {"keys": jwks}, "tokens": tokens}
print(json.dumps(golden, indent=1))
