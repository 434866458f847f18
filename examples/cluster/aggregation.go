package main

import (
	"path/filepath"

	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/aggregation"
	"github.com/keelson-dev/keelson/pki"
)

// aggregator is the name in the certificate that this server shows to those of APIServices.
const aggregator = "front-proxy-client"

// aggregate lets APIServices name other servers, which know this one by a certificate of its own authority.
func (s *settings) aggregate(o *cluster.Options) error {
	authority, err := pki.OpenFrontProxy(filepath.Join(s.dataDir, "pki"))
	if err != nil {
		return err
	}
	pair, err := authority.Keep(aggregator, pki.Subject{Name: aggregator}, life)
	if err != nil {
		return err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return err
	}
	o.Extensions = append(o.Extensions, aggregation.Extension(aggregation.Options{Certificate: &certificate}))
	o.Server.FrontProxy = &cluster.FrontProxy{CA: authority.PEM(), Headers: requestheader.Options{AllowedNames: []string{aggregator}}}
	return nil
}
