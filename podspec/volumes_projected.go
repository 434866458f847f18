package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec/signername"
)

const duplicatePaths = "conflicting duplicate paths"

// projection validates the sources of one projected volume, which share one directory.
type projection struct {
	*validator
	p     *field.Path // of the volume source
	paths map[string]bool
}

func (v *validator) projected(s *corev1.ProjectedVolumeSource, p *field.Path) {
	v.fileMode(p.Child("defaultMode"), s.DefaultMode)
	v.userID(p.Child("defaultUser"), s.DefaultUser)
	into := projection{validator: v, p: p, paths: map[string]bool{}}
	for i := range s.Sources {
		into.source(&s.Sources[i], p.Child("sources").Index(i))
	}
}

func (j projection) source(s *corev1.VolumeProjection, p *field.Path) {
	n := 0
	if s.Secret != nil {
		n++
		j.keysOf(s.Secret.Name, s.Secret.Items, p.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		j.keysOf(s.ConfigMap.Name, s.ConfigMap.Items, p.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			file := &s.DownwardAPI.Items[i]
			j.downwardFile(file, p.Child("downwardAPI"))
			if file.Path != "" {
				j.take(file.Path, file.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		j.token(s.ServiceAccountToken, p.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		n++
		j.trustBundle(s.ClusterTrustBundle, p.Child("clusterTrustBundle"))
	}
	if s.PodCertificate != nil {
		n++
		j.certificate(s.PodCertificate, p.Child("podCertificate"))
	}
	if n > 1 {
		j.forbidden(p, "may not specify more than 1 volume type per source")
	}
}

// take reserves a path for a source; owner names the source in messages.
func (j projection) take(path, owner string) {
	if j.paths[path] {
		j.invalid(j.p, owner, duplicatePaths)
	}
	j.paths[path] = true
}

func (j projection) keysOf(name string, items []corev1.KeyToPath, p *field.Path) {
	j.need(p.Child("name"), name)
	for i := range items {
		j.keyToPath(&items[i], p.Child("items").Index(i))
		if items[i].Path != "" {
			j.take(items[i].Path, name)
		}
	}
}

func (j projection) token(s *corev1.ServiceAccountTokenProjection, p *field.Path) {
	seconds := p.Child("expirationSeconds")
	switch e := s.ExpirationSeconds; {
	case e == nil:
		j.required(seconds, "")
	case *e < 10*60:
		j.invalid(seconds, *e, "may not specify a duration less than 10 minutes")
	case *e > 1<<32:
		j.invalid(seconds, *e, "may not specify a duration larger than 2^32 seconds")
	}
	if j.need(j.p.Child("path"), s.Path) && !j.allow.nonLocalTokenPath {
		j.localPath(j.p.Child("path"), s.Path)
	}
	j.userID(p.Child("user"), s.User)
}

func (j projection) trustBundle(s *corev1.ClusterTrustBundleProjection, p *field.Path) {
	switch {
	case s.Name != nil && s.SignerName != nil:
		j.invalid(p, asInternal(s), "only one of name and signerName may be used")
	case s.Name != nil:
		if *s.Name == "" {
			j.required(p.Child("name"), "must be a valid object name")
		}
		for _, msg := range trustBundleName(*s.Name) {
			j.invalid(p.Child("name"), *s.Name, "not a valid clustertrustbundlename: "+msg)
		}
		if s.LabelSelector != nil {
			j.invalid(p.Child("labelSelector"), s.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case s.SignerName != nil:
		if *s.SignerName == "" {
			j.required(p.Child("signerName"), "must be a valid signer name")
		}
		j.add(signername.Validate(p.Child("signerName"), *s.SignerName)...)
		j.add(metavalidation.ValidateLabelSelector(s.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)
	default:
		j.required(p, "either name or signerName must be specified")
	}
	j.need(p.Child("path"), s.Path)
	j.userID(p.Child("user"), s.User)
	j.localPath(p.Child("path"), s.Path)
	j.take(s.Path, s.Path)
}

// trustBundleName validates the name of a ClusterTrustBundle, which tells the signer.
func trustBundleName(name string) []string {
	i := strings.LastIndex(name, ":")
	if i < 0 {
		return signername.TrustBundle("", name, false)
	}
	return signername.TrustBundle(strings.ReplaceAll(name[:i], ":", "/"), name, false)
}

func (j projection) certificate(s *corev1.PodCertificateProjection, p *field.Path) {
	j.add(signername.Validate(p.Child("signerName"), s.SignerName)...)
	if s.UserAnnotations != nil {
		j.add(signername.Annotations(p.Child("userAnnotations"), s.UserAnnotations)...)
	}
	j.userID(p.Child("user"), s.User)
	oneOf(&j.report, p.Child("keyType"), s.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if e := s.MaxExpirationSeconds; e != nil {
		const hour, day = 60 * 60, 24 * 60 * 60
		longest := int32(91 * day)
		if signername.Kubernetes(s.SignerName) {
			longest = day
		}
		if *e < hour {
			j.invalid(p.Child("maxExpirationSeconds"), *e, "if provided, maxExpirationSeconds must be >= 3600")
		}
		if *e > longest {
			j.invalid(p.Child("maxExpirationSeconds"), *e, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest))
		}
	}
	if s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "" {
		j.required(p, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
	j.certificateFile(p.Child("credentialBundlePath"), s.CredentialBundlePath)
	j.certificateFile(p.Child("keyPath"), s.KeyPath)
	j.certificateFile(p.Child("certificateChainPath"), s.CertificateChainPath)
}

func (j projection) certificateFile(p *field.Path, path string) {
	if path != "" {
		j.localPath(p, path)
		j.take(path, path)
	}
}
