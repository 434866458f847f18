package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// Entry is one cluster with one user. Certificates and keys are PEM.
type Entry struct {
	Name      string // of the context and of its cluster; required
	User      string // name of the user entry; Name when empty
	Server    string // URL of the API server; required
	Namespace string // of requests that name none; "default" when empty
	CA        []byte // that signed the server's certificate; the system's roots when empty

	Certificate, Key []byte // of an x509 client; both or none
	// CertificateFile and KeyFile are paths of files with these instead, for a certificate that is replaced.
	CertificateFile, KeyFile string
	Token                    string // bearer token, used beside or instead of a certificate
}

// ErrLocked: another process is writing the file, or died doing so.
var ErrLocked = errors.New("kubeconfig is locked")

// How long Add waits for another writer, and how often it checks.
const (
	lockWait  = 2 * time.Second
	lockRetry = 20 * time.Millisecond
)

// Config returns the entry as a whole kubeconfig with it as the current context.
func (e Entry) Config() (*api.Config, error) {
	config := api.NewConfig()
	return config, e.into(config)
}

// Add adds the entry to the kubeconfig file at path and makes it the current context. It replaces entries of the same
// names and keeps all others. A missing file and its directory are created. The file is replaced atomically, with mode
// 0600.
//
// Comments in the file and fields unknown to client-go are lost, as with kubectl config. A file
// that cannot be read as a kubeconfig is left alone and an error returned. Add waits for another
// writer for two seconds at most, then fails with [ErrLocked].
func Add(ctx context.Context, path string, e Entry) (err error) {
	if path == "" {
		return errors.New("kubeconfig: the path of the file is empty")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("kubeconfig: make a directory for the file: %w", err)
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := checkAliases(path); err != nil {
		return fmt.Errorf("%w; it was left as it is: repair it or name another file", err)
	}
	config, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		config = api.NewConfig()
	case err != nil:
		return fmt.Errorf("kubeconfig %s: %w; it was left as it is: repair it or name another file", path, err)
	}
	if err := e.into(config); err != nil {
		return err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: encode: %w", path, err)
	}
	if err := replace(path, data); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}

func (e Entry) into(config *api.Config) error {
	switch {
	case e.Name == "":
		return errors.New("kubeconfig entry: Name is empty")
	case e.Server == "":
		return fmt.Errorf("kubeconfig entry %q: Server is empty, want a URL such as https://127.0.0.1:6443", e.Name)
	case (len(e.Certificate) == 0) != (len(e.Key) == 0):
		return fmt.Errorf("kubeconfig entry %q: Certificate and Key go together, and one is empty", e.Name)
	case (e.CertificateFile == "") != (e.KeyFile == ""):
		return fmt.Errorf("kubeconfig entry %q: CertificateFile and KeyFile go together, and one is empty", e.Name)
	case e.CertificateFile != "" && len(e.Certificate) > 0:
		return fmt.Errorf("kubeconfig entry %q: Certificate and CertificateFile exclude each other", e.Name)
	}
	user := e.User
	if user == "" {
		user = e.Name
	}
	config.Clusters[e.Name] = &api.Cluster{Server: e.Server, CertificateAuthorityData: e.CA}
	config.AuthInfos[user] = &api.AuthInfo{
		ClientCertificateData: e.Certificate, ClientKeyData: e.Key, ClientCertificate: e.CertificateFile, ClientKey: e.KeyFile, Token: e.Token,
	}
	config.Contexts[e.Name] = &api.Context{Cluster: e.Name, AuthInfo: user, Namespace: e.Namespace}
	config.CurrentContext = e.Name
	return nil
}

// lock takes kubectl's lock of the file.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	name := path + ".lock"
	deadline := time.Now().Add(lockWait)
	for {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			unlock := func() error { return os.Remove(name) }
			if err := file.Close(); err != nil {
				return nil, errors.Join(err, unlock())
			}
			return unlock, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("kubeconfig: lock: %w", err)
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("%w: %s exists; remove it if no other program is writing %s", ErrLocked, name, path)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockRetry):
		}
	}
}

// replace writes data to a new file and puts it in the place of path, or of what path links to.
func replace(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}
