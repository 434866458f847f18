package schedulerconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/scheduler/extender"
)

// extend makes the extenders; those that are ignorable come last.
func (r *reader) extend(all []extended, at *field.Path) {
	var ignorable []*extender.Extender
	binders, seen, names := 0, map[string]bool{}, map[string]int{}
	for i := range all {
		e, path := &all[i], at.Index(i)
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			r.wrong(field.Invalid(path.Child("weight"), e.Weight, "must have a positive weight applied to it"))
		}
		if e.BindVerb != "" {
			binders++
		}
		if u, err := url.Parse(e.URLPrefix); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			r.refuse(path.Child("urlPrefix"), "%q is not a URL with http or https", e.URLPrefix)
		}
		c := extender.Config{
			URL: e.URLPrefix, Filter: e.FilterVerb, Prioritize: e.PrioritizeVerb, Preempt: e.PreemptVerb, Bind: e.BindVerb,
			Weight: e.Weight, Timeout: e.HTTPTimeout.Duration, NodeCacheCapable: e.NodeCacheCapable, Ignorable: e.Ignorable,
		}
		if c.Timeout < 0 {
			r.refuse(path.Child("httpTimeout"), "%v is not a time", c.Timeout)
		}
		if names[c.URL]++; names[c.URL] > 1 {
			c.Name = fmt.Sprintf("%s (%d)", c.URL, names[c.URL])
		}
		for j, m := range e.ManagedResources {
			path := path.Child("managedResources").Index(j).Child("name")
			r.wrong(extendedResource(m.Name, path)...)
			if seen[m.Name] {
				r.wrong(field.Invalid(path, m.Name, "duplicate extender managed resource name"))
			}
			seen[m.Name] = true
			c.ManagedResources = append(c.ManagedResources, m.Name)
			if m.IgnoredByScheduler {
				r.ignored = append(r.ignored, m.Name)
			}
		}
		c.TLS = r.tls(e, path.Child("tlsConfig"))
		if e.Ignorable {
			ignorable = append(ignorable, extender.New(c))
		} else {
			r.extenders = append(r.extenders, extender.New(c))
		}
	}
	r.extenders = slices.Concat(r.extenders, ignorable)
	if binders > 1 {
		r.wrong(field.Invalid(at, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
}

// extendedResource checks the name of an extended resource.
func extendedResource(name string, at *field.Path) (errs field.ErrorList) {
	for _, message := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(at, corev1.ResourceName(name), message))
	}
	if len(errs) > 0 {
		return errs
	}
	native := !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
	if native || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) || len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) > 0 {
		errs = append(errs, field.Invalid(at, name, "is an invalid extended resource name"))
	}
	return errs
}

// tls returns how to connect to an extender. As upstream, one with enableHTTPS and no authority is not verified.
func (r *reader) tls(e *extended, at *field.Path) *tls.Config {
	f := e.TLSConfig
	if f == nil {
		f = &tlsFiles{}
	}
	read := func(name, file string, data []byte) []byte {
		if len(data) > 0 || file == "" {
			return data
		}
		text, err := os.ReadFile(file)
		if err != nil {
			r.refuse(at.Child(name), "%w", err)
		}
		return text
	}
	ca := read("caFile", f.CAFile, f.CAData)
	certificate, key := read("certFile", f.CertFile, f.CertData), read("keyFile", f.KeyFile, f.KeyData)
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	c.InsecureSkipVerify = f.Insecure || e.EnableHTTPS && len(ca) == 0 //nolint:gosec // the file says so
	if len(ca) > 0 {
		if c.InsecureSkipVerify {
			r.refuse(at.Child("insecure"), "specifying a root certificates file with the insecure flag is not allowed")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			r.refuse(at.Child("caFile"), "has no certificate in PEM form")
		}
	}
	switch {
	case len(certificate) == 0 && len(key) == 0:
		return c
	case len(certificate) == 0 || len(key) == 0:
		r.refuse(at, "%w", errors.New("certFile, or certData, and keyFile, or keyData, go together"))
		return c
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		r.refuse(at.Child("certFile"), "%w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c
}
