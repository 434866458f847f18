// Package aes are the transformers of package encryption that are made of AES, in the formats
// of upstream's providers aescbc and aesgcm and, for envelopes, of its extended nonce.
//
// Which to take: [NewGCM] and [NewSeed] authenticate, so that a value that somebody changed or moved to another key
// of the store is refused; [NewCBC] does not, and is here for what was written with it. A key of NewGCM must be replaced
// before it has written some 2³² values (upstream says: every 200,000 writes), for its nonces are
// random; seeds have no such bound.
//
// Keys are of 16, 24 or 32 bytes, seeds of 32 or more. No error tells any of them.
package aes
