package generate

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	content "k8s.io/apimachinery/pkg/util/validation"
)

// ConfigMapOptions are the flags of kubectl create configmap.
type ConfigMapOptions struct {
	Sources
	AppendHash bool // append a hash of the content to the name
}

// ConfigMap makes what kubectl create configmap NAME makes. Files that are not UTF-8 become binary
// data.
func ConfigMap(name string, o ConfigMapOptions) (*corev1.ConfigMap, error) {
	if err := checkName("configmap", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	m := &corev1.ConfigMap{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "ConfigMap"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{}, BinaryData: map[string][]byte{},
	}
	literal := func(key, value string) error {
		if err := newKey(m, key); err != nil {
			return err
		}
		m.Data[key] = value
		return nil
	}
	to := sink{kind: "config", literal: literal, file: func(key string, data []byte) error {
		if utf8.Valid(data) {
			return literal(key, string(data))
		}
		if err := newKey(m, key); err != nil {
			return err
		}
		m.BinaryData[key] = data
		return nil
	}}
	for _, read := range []func(sink) error{o.readFiles, o.readLiterals, o.readEnvFiles} {
		if err := read(to); err != nil {
			return nil, err
		}
	}
	if !o.AppendHash {
		return m, nil
	}
	hashed := map[string]any{"kind": "ConfigMap", "name": m.Name, "data": m.Data}
	if len(m.BinaryData) > 0 {
		hashed["binaryData"] = m.BinaryData
	}
	var err error
	m.Name, err = appendHash(m.Name, hashed)
	return m, err
}

func newKey(m *corev1.ConfigMap, key string) error {
	if problems := content.IsConfigMapKey(key); len(problems) > 0 {
		return fmt.Errorf("%q is not a valid key name for a ConfigMap: %s", key, strings.Join(problems, ","))
	}
	if _, exists := m.Data[key]; exists {
		return fmt.Errorf("cannot add key %q, another key by that name already exists in Data for ConfigMap %q", key, m.Name)
	}
	if _, exists := m.BinaryData[key]; exists {
		return fmt.Errorf("cannot add key %q, another key by that name already exists in BinaryData for ConfigMap %q", key, m.Name)
	}
	return nil
}

// SecretOptions are the flags of kubectl create secret generic.
type SecretOptions struct {
	Sources
	Type       corev1.SecretType // the server's default, Opaque, when empty
	AppendHash bool              // append a hash of the content to the name
}

// Secret makes what kubectl create secret generic NAME makes.
func Secret(name string, o SecretOptions) (*corev1.Secret, error) {
	s, err := newSecret(name, o.Type)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	to := secretSink(s)
	for _, read := range []func(sink) error{o.readLiterals, o.readFiles, o.readEnvFiles} {
		if err := read(to); err != nil {
			return nil, err
		}
	}
	return s, hashSecret(s, o.AppendHash)
}

func newSecret(name string, kind corev1.SecretType) (*corev1.Secret, error) {
	if err := checkName("secret", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	return &corev1.Secret{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Secret"),
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: map[string][]byte{},
	}, nil
}

func secretSink(s *corev1.Secret) sink {
	file := func(key string, data []byte) error {
		if problems := content.IsConfigMapKey(key); len(problems) > 0 {
			return fmt.Errorf("%q is not valid key name for a Secret %s", key, strings.Join(problems, ";"))
		}
		if _, exists := s.Data[key]; exists {
			return fmt.Errorf("cannot add key %s, another key by that name already exists", key)
		}
		s.Data[key] = data
		return nil
	}
	return sink{kind: "secret", file: file, literal: func(key, value string) error { return file(key, []byte(value)) }}
}

func hashSecret(s *corev1.Secret, wanted bool) (err error) {
	if wanted {
		s.Name, err = appendHash(s.Name, map[string]any{"kind": "Secret", "type": s.Type, "name": s.Name, "data": s.Data})
	}
	return err
}

// appendHash appends the hash to a name. Letters and digits that could form words are replaced.
func appendHash(name string, hashed map[string]any) (string, error) {
	data, err := json.Marshal(hashed)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])[:10]
	return name + "-" + strings.NewReplacer("0", "g", "1", "h", "3", "k", "a", "m", "e", "t").Replace(hash), nil
}

// TLSOptions are the flags of kubectl create secret tls.
type TLSOptions struct {
	Cert, Key  string // paths of PEM files; required
	AppendHash bool   // append a hash of the content to the name
	FS         fs.FS  // file system of the paths; the machine's own files when nil
}

// TLSSecret makes what kubectl create secret tls NAME makes. The key must match the certificate.
func TLSSecret(name string, o TLSOptions) (*corev1.Secret, error) {
	if o.Cert == "" || o.Key == "" {
		return nil, errors.New("key and cert must be specified")
	}
	s, err := newSecret(name, corev1.SecretTypeTLS)
	if err != nil {
		return nil, err
	}
	for key, file := range map[string]string{corev1.TLSCertKey: o.Cert, corev1.TLSPrivateKeyKey: o.Key} {
		data, err := fs.ReadFile(filesOf(o.FS), file)
		if err != nil {
			return nil, fmt.Errorf("Cannot read file %v, %w", file, err) //nolint:staticcheck // kubectl's words
		}
		s.Data[key] = data
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return nil, err
	}
	return s, hashSecret(s, o.AppendHash)
}

// DockerOptions are the flags of kubectl create secret docker-registry.
type DockerOptions struct {
	Username, Password, Email string // the credentials
	Server                    string // "https://index.docker.io/v1/" when empty
	// Files is a ~/.docker/config.json, each "path" or ".dockerconfigjson=path", instead of the rest.
	Files      []string
	AppendHash bool  // append a hash of the content to the name
	FS         fs.FS // file system of the paths; the machine's own files when nil
}

// DockerSecret makes what kubectl create secret docker-registry NAME makes.
func DockerSecret(name string, o DockerOptions) (*corev1.Secret, error) {
	if len(o.Files) == 0 && (o.Username == "" || o.Password == "") {
		return nil, errors.New("either --from-file or the combination of --docker-username, --docker-password and --docker-server is required")
	}
	s, err := newSecret(name, corev1.SecretTypeDockerConfigJson)
	if err != nil {
		return nil, err
	}
	if len(o.Files) == 0 {
		if s.Data[corev1.DockerConfigJsonKey], err = o.config(); err != nil {
			return nil, err
		}
	}
	sources := Sources{FS: o.FS}
	for _, file := range o.Files {
		if !strings.Contains(file, "=") {
			file = corev1.DockerConfigJsonKey + "=" + file
		}
		sources.Files = append(sources.Files, file)
	}
	if err := sources.readFiles(secretSink(s)); err != nil {
		return nil, err
	}
	return s, hashSecret(s, o.AppendHash)
}

func (o DockerOptions) config() ([]byte, error) {
	type entry struct {
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Email    string `json:"email,omitempty"`
		Auth     string `json:"auth,omitempty"`
	}
	server := o.Server
	if server == "" {
		server = "https://index.docker.io/v1/"
	}
	auth := base64.StdEncoding.EncodeToString([]byte(o.Username + ":" + o.Password))
	return json.Marshal(map[string]map[string]entry{"auths": {server: {o.Username, o.Password, o.Email, auth}}})
}
