package kubeconfig

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
)

// serviceAccountDir is where kubelets put a pod's credentials.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

func (e Environment) file(name string) string {
	dir := e.ServiceAccount
	if dir == "" {
		dir = serviceAccountDir
	}
	return filepath.Join(dir, name)
}

// inPod says whether this is a pod's environment.
func (e Environment) inPod() bool {
	info, err := os.Stat(e.file("token"))
	return e.ServiceHost != "" && e.ServicePort != "" && err == nil && !info.IsDir()
}

// namespace is the one the pod runs in.
func (e Environment) namespace() string {
	if e.PodNamespace != "" {
		return e.PodNamespace
	}
	if data, err := os.ReadFile(e.file("namespace")); err == nil {
		if name := strings.TrimSpace(string(data)); name != "" {
			return name
		}
	}
	return "default"
}

// inCluster is the access of a pod to its own API server. Of the overrides, the server, a token and the CA take effect,
// as in client-go.
func (o Options) inCluster() (*Access, error) {
	env, token := o.Environment, o.Environment.file("token")
	data, err := os.ReadFile(token)
	if err != nil {
		return nil, fmt.Errorf("the pod's service account: %w", err)
	}
	config := &rest.Config{
		Host:        "https://" + net.JoinHostPort(env.ServiceHost, env.ServicePort),
		BearerToken: string(data), BearerTokenFile: token,
	}
	if ca := env.file("ca.crt"); exists(ca) {
		config.CAFile = ca
	}
	if server := o.Overrides.ClusterInfo.Server; server != "" {
		config.Host = server
	}
	if user := o.Overrides.AuthInfo; user.Token != "" || user.TokenFile != "" {
		config.BearerToken, config.BearerTokenFile = user.Token, user.TokenFile
	}
	if ca := o.Overrides.ClusterInfo.CertificateAuthority; ca != "" {
		config.CAFile = ca
	}
	if err := checkCA(config); err != nil {
		return nil, fmt.Errorf("the pod's service account: %w", err)
	}
	access := &Access{Config: config, Namespace: o.Overrides.Context.Namespace, Explicit: true}
	if access.Namespace == "" {
		access.Namespace, access.Explicit = env.namespace(), false
	}
	return access, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
