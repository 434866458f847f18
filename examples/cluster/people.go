package main

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/basic"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/tokenfile"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/pki"
)

// people are those who may come: holders of certificates, and who stands in the files of the flags.
type people struct {
	authenticators []authn.Authenticator // in the order in which they are asked
	files          []controllers.Runnable
}

func (s *settings) people(authority *pki.Authority) (people, error) {
	p := people{authenticators: []authn.Authenticator{x509.New(x509.Static{Roots: authority.Pool()})}}
	if s.tokens != "" {
		file, err := tokenfile.Open(s.tokens, tokenfile.Options{Log: s.logger()})
		if err != nil {
			return p, fmt.Errorf("--token-auth-file: %w", err)
		}
		p.authenticators, p.files = append(p.authenticators, token.New(file)), append(p.files, file)
	}
	if s.passwords != "" {
		file, err := basic.Open(s.passwords, basic.Options{Log: s.logger()})
		if err != nil {
			return p, fmt.Errorf("--basic-auth-file: %w", err)
		}
		p.authenticators, p.files = append(p.authenticators, basic.New(file)), append(p.files, file)
	}
	return p, nil
}

// Run reads the files again whenever they change.
func (p people) Run(ctx context.Context) error { return controllers.Group(p.files...).Run(ctx) }
