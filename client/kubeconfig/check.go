package kubeconfig

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// checkFile says why a file cannot be loaded; nil when it can, or when it does not exist.
func checkFile(path string) error {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("kubeconfig: %w", err) // names the path
	}
	if err := checkSize(path, data); err != nil {
		return err
	}
	if _, err := clientcmd.Load(data); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, explainDecode(data, err))
	}
	return nil
}

// checkAliases keeps client-go, which reads the file itself, from following aliases without end.
func checkAliases(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // client-go stumbles over it too, and says how
	}
	return checkSize(path, data)
}

func checkSize(path string, data []byte) error {
	err := boundedyaml.Check(data, max(len(data), boundedyaml.Limit))
	if errors.Is(err, boundedyaml.ErrTooLarge) || errors.Is(err, boundedyaml.ErrTooDeep) {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}

// explainDecode names the field where the decoder does not: of base64 it tells only that it is
// wrong.
func explainDecode(data []byte, err error) error {
	var file struct {
		Clusters []struct {
			Name    string         `json:"name"`
			Cluster map[string]any `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			Name string         `json:"name"`
			User map[string]any `json:"user"`
		} `json:"users"`
	}
	if boundedyaml.Unmarshal(data, &file, max(len(data), boundedyaml.Limit)) != nil {
		return boundedyaml.WithoutValues(err)
	}
	for _, c := range file.Clusters {
		if bad := checkBase64("cluster", c.Name, c.Cluster, "certificate-authority-data"); bad != nil {
			return bad
		}
	}
	for _, u := range file.Users {
		if bad := checkBase64("user", u.Name, u.User, "client-certificate-data", "client-key-data"); bad != nil {
			return bad
		}
	}
	return err
}

func checkBase64(what, name string, fields map[string]any, keys ...string) error {
	for _, key := range keys {
		text, ok := fields[key].(string)
		if !ok {
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("%s %q: %s: %w: it takes the base64 of a PEM file; %s takes a path", what, name, key, err, key[:len(key)-len("-data")])
		}
	}
	return nil
}

// explain puts the names of the files in front of an error about what is in them.
func (s source) explain(err error) error {
	c := s.context()
	if cluster := s.config.Clusters[c.Cluster]; cluster != nil && cluster.ProxyURL != "" {
		if _, bad := url.Parse(cluster.ProxyURL); bad != nil { // its text may hold a password
			return fmt.Errorf("kubeconfig %s: cluster %q: proxy-url is not a URL: want one such as http://proxy.example:3128", s.places(), c.Cluster)
		}
	}
	return fmt.Errorf("kubeconfig %s: context %q: %w", s.places(), s.contextName(), err)
}

// checkCredentials reads what requests would stumble over: certificates and keys.
func (s source) checkCredentials(config *rest.Config) error {
	if !rest.IsConfigTransportTLS(*config) {
		return nil
	}
	c := s.context()
	if err := checkCA(config); err != nil {
		file := ""
		if cluster := s.config.Clusters[c.Cluster]; cluster != nil {
			file = cluster.LocationOfOrigin
		}
		return fmt.Errorf("cluster %q%s: %w", c.Cluster, origin(file), err)
	}
	if err := checkPair(config); err != nil {
		file := ""
		if user := s.config.AuthInfos[c.AuthInfo]; user != nil {
			file = user.LocationOfOrigin
		}
		return fmt.Errorf("user %q%s: %w", c.AuthInfo, origin(file), err)
	}
	return nil
}

func checkCA(config *rest.Config) error {
	if len(config.CAData) == 0 && config.CAFile == "" {
		return nil
	}
	if config.Insecure {
		return errors.New("insecure-skip-tls-verify and a certificate-authority exclude each other: remove one")
	}
	data, field, err := material(config.CAData, config.CAFile, "certificate-authority")
	if err == nil {
		_, err = cert.ParseCertsPEM(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want the PEM of the certificates that signed the server's", field, err)
	}
	return nil
}

func checkPair(config *rest.Config) error {
	if len(config.CertData) == 0 && config.CertFile == "" {
		return nil
	}
	certificate, field, err := material(config.CertData, config.CertFile, "client-certificate")
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	key, keyField, err := material(config.KeyData, config.KeyFile, "client-key")
	if err != nil {
		return fmt.Errorf("%s: %w", keyField, err)
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("%s and %s: %w: want the PEM of a certificate and of its key", field, keyField, err)
	}
	return nil
}

// material is what data holds, or else the file, and the field that it stands in.
func material(data []byte, file, field string) ([]byte, string, error) {
	if len(data) > 0 {
		return data, field + "-data", nil
	}
	data, err := os.ReadFile(file)
	return data, field + " " + file, err
}
