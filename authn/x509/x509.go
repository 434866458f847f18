package x509

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"weak"

	"github.com/keelson-dev/keelson/authn"
)

// ErrUID: the certificate is valid, but its UID attribute makes no sense.
var ErrUID = errors.New("bad UID in client certificate")

// Error says that a client certificate could not be verified: it is expired or not valid yet, not for clients, or of an
// unknown authority.
type Error struct {
	// Certificate identifies it by its serial number and key identifiers.
	Certificate string
	// Err is the cause, such as an x509.CertificateInvalidError or x509.UnknownAuthorityError of
	// the standard library.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("verifying certificate %s failed: %v", e.Certificate, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Authorities are the trusted certificate authorities. Implementations are safe for concurrent use.
type Authorities interface {
	// Pool returns the current authorities; nil if there are none, and no certificate is verified. The caller must not
	// change the pool, and neither does the implementation: other authorities are another pool.
	Pool() *x509.CertPool
}

// Static are authorities that never change.
type Static struct {
	Roots *x509.CertPool // nil: no certificate is verified
}

// Pool implements Authorities.
func (s Static) Pool() *x509.CertPool { return s.Roots }

// New returns an Authenticator of requests over TLS with a client certificate of one of the authorities. Requests of
// one connection share the tls.ConnectionState: its certificates are not verified again as long as the whole chain is
// valid and Pool returns the same pool.
func New(authorities Authorities) authn.Authenticator {
	seen := &connections{known: map[weak.Pointer[tls.ConnectionState]]*verified{}}
	return authn.Func(func(r *http.Request) (*authn.Identity, error) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			return nil, authn.ErrNoCredentials
		}
		roots := authorities.Pool()
		if roots == nil {
			return nil, authn.ErrNoCredentials
		}
		if id := seen.find(r.TLS, roots); id != nil {
			return id, nil
		}
		certs := r.TLS.PeerCertificates
		chain, err := verify(certs, roots)
		if err != nil {
			return nil, &Error{Certificate: describe(certs[0]), Err: err}
		}
		id, err := identity(certs[0])
		if err == nil {
			seen.keep(r.TLS, roots, chain, id)
		}
		return id, err
	})
}

// verify returns the chain from the first certificate to an authority.
func verify(certs []*x509.Certificate, roots *x509.CertPool) ([]*x509.Certificate, error) {
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, cert := range certs[1:] {
		o.Intermediates.AddCert(cert)
	}
	chains, err := certs[0].Verify(o)
	if err != nil {
		return nil, err
	}
	return chains[0], nil
}

// identity returns the user named in a verified certificate.
func identity(cert *x509.Certificate) (*authn.Identity, error) {
	if cert.Subject.CommonName == "" {
		return nil, authn.ErrNoCredentials
	}
	uid, err := uidOf(cert)
	if err != nil {
		return nil, err
	}
	fingerprint := sha256.Sum256(cert.Raw)
	return &authn.Identity{
		Name: cert.Subject.CommonName, UID: uid, Groups: slices.Clone(cert.Subject.Organization),
		Extra: map[string][]string{authn.CredentialID: {"X509SHA256=" + hex.EncodeToString(fingerprint[:])}},
	}, nil
}

// UIDAttribute is the attribute of a certificate's subject that holds the user's UID.
func UIDAttribute() asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
}

func uidOf(cert *x509.Certificate) (string, error) {
	var uids []string
	attribute := UIDAttribute()
	for _, name := range cert.Subject.Names {
		if !name.Type.Equal(attribute) {
			continue
		}
		uid, ok := name.Value.(string)
		if !ok {
			return "", fmt.Errorf("%w: unable to parse UID into a string", ErrUID)
		}
		uids = append(uids, uid)
	}
	switch {
	case len(uids) == 0:
		return "", nil
	case len(uids) > 1:
		return "", fmt.Errorf("%w: expected 1 UID, but found multiple: %v", ErrUID, uids)
	case uids[0] == "":
		return "", fmt.Errorf("%w: UID cannot be an empty string", ErrUID)
	}
	return uids[0], nil
}

// describe identifies a certificate by serial number and key identifiers.
func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("SN=%d, SKID=%s, AKID=%s", cert.SerialNumber, colonHex(cert.SubjectKeyId), colonHex(cert.AuthorityKeyId))
}

func colonHex(id []byte) string {
	pairs := make([]string, len(id))
	for i, b := range id {
		pairs[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(pairs, ":")
}
