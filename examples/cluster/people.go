package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/basic"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/tokenfile"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

// people are the users who can log in: holders of certificates, and the users in the files of the flags.
type people struct {
	authenticators []cluster.AuthenticatorStage // in the order in which they are asked
	others         []cluster.AuthenticatorStage // who are asked after service accounts
	extensions     []cluster.Extension          // of the others
	files          []lifecycle.Runnable
}

func (s *settings) people(authority *pki.Authority) (people, error) {
	p := people{authenticators: []cluster.AuthenticatorStage{stage("x509", x509.New(x509.Static{Roots: authority.Pool()}))}}
	if err := s.foreign.clients(&p, s); err != nil {
		return p, err
	}
	if s.login.tokens != "" {
		file, err := tokenfile.Open(s.login.tokens, tokenfile.Options{Log: s.logger()})
		if err != nil {
			return p, fmt.Errorf("--token-auth-file: %w", err)
		}
		p.authenticators, p.files = append(p.authenticators, stage("tokenfile", token.New(file))), append(p.files, file)
	}
	if s.login.passwords != "" {
		file, err := basic.Open(s.login.passwords, basic.Options{Log: s.logger()})
		if err != nil {
			return p, fmt.Errorf("--basic-auth-file: %w", err)
		}
		p.authenticators, p.files = append(p.authenticators, stage("basic", basic.New(file))), append(p.files, file)
	}
	return p, s.login.others(&p, s)
}

// apply sets the authenticators of a cluster.
func (p people) apply(o *cluster.Options) {
	o.Authenticators = slices.Concat(p.authenticators, cluster.DefaultAuthenticators(), p.others)
	o.Extensions = append(o.Extensions, p.extensions...)
}

func stage(name string, a authn.Authenticator) cluster.AuthenticatorStage {
	return cluster.Ready(name, a)
}

// Run reads the files again whenever they change.
func (p people) Run(ctx context.Context) error { return lifecycle.Group(p.files...).Run(ctx) }
