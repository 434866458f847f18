// Package authentication holds keelson's authenticators to upstream's: random service account
// tokens and client certificates must be taken for the same identities or refused for the same
// reasons, tokens must be the same to the byte but for the signature, and so must the documents by
// which others verify them.
//
// It is a module of its own, because it is built from k8s.io/kubernetes and replaces the versions of
// the published modules; nothing imports it. The version here is the newest that the module proxy
// hands out. Run it in this directory:
//
//	go test .                                # 20,000 tokens, 2,000 certificates
//	go test . -requests 1000000 -seed 7      # more, and others
package authentication
