package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Config says where etcd is and how to reach it.
type Config struct {
	// Endpoints are URLs such as https://10.0.0.1:2379, for as many members as are known.
	Endpoints []string
	// CAFile holds the CA certificates, in PEM, that sign the members' certificates; empty means the system's.
	CAFile string
	// CertFile and KeyFile are the client's certificate and its key in PEM, both or none. They are read again
	// for every connection.
	CertFile, KeyFile string
	// User and Password are for an etcd that has authentication on.
	User, Password string
	// DialTimeout bounds how long a request waits for a connection to any member; 0 means 20 seconds.
	DialTimeout time.Duration
	// KeepaliveTime is after how much silence a member is pinged, KeepaliveTimeout how long it may take to answer. 0
	// means 30 and 10 seconds; gRPC takes no KeepaliveTime under 10 seconds.
	KeepaliveTime, KeepaliveTimeout time.Duration
}

// ErrConfig: the Config is invalid.
var ErrConfig = errors.New("bad etcd configuration")

// Open returns a store with a client of its own, which Close closes. It contacts etcd only to log in, until the context
// ends or DialTimeout is over. Use Ready to see whether etcd answers.
func Open(ctx context.Context, config Config, options Options) (*Store, error) {
	c, err := config.client()
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, c)
	if err != nil {
		return nil, &Error{config.Endpoints, "connect", err}
	}
	s := New(client, options)
	s.owned = true
	return s, nil
}

// connect makes a client, whose own context must outlive ctx.
func connect(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	lifetime, end := context.WithCancel(context.Background())
	config.Context = lifetime
	stop := context.AfterFunc(ctx, end)
	client, err := clientv3.New(config)
	if !stop() { // the context ended
		if err == nil {
			_ = client.Close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		end()
	}
	return client, err
}

func (c Config) client() (clientv3.Config, error) {
	secure, err := c.secure()
	if err != nil {
		return clientv3.Config{}, err
	}
	if c.Password != "" && c.User == "" {
		return clientv3.Config{}, fmt.Errorf("%w: a password without a user", ErrConfig)
	}
	const dial, silence, answer = 20 * time.Second, 30 * time.Second, 10 * time.Second
	or := func(d, standard time.Duration) time.Duration {
		if d <= 0 {
			return standard
		}
		return d
	}
	return clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  secure,
		Username:             c.User,
		Password:             c.Password,
		DialTimeout:          or(c.DialTimeout, dial),
		DialKeepAliveTime:    or(c.KeepaliveTime, silence),
		DialKeepAliveTimeout: or(c.KeepaliveTimeout, answer),
		DialOptions:          []grpc.DialOption{grpc.WithChainUnaryInterceptor(caller{or(c.DialTimeout, dial)}.call)},
		Logger:               zap.NewNop(),
	}, nil
}

func (c Config) secure() (*tls.Config, error) {
	encrypted := 0
	for _, endpoint := range c.Endpoints {
		switch scheme, rest, ok := strings.Cut(endpoint, "://"); {
		case !ok || rest == "" || scheme != "http" && scheme != "https":
			return nil, fmt.Errorf("%w: endpoint %q is no http:// or https:// URL", ErrConfig, endpoint)
		case scheme == "https":
			encrypted++
		}
	}
	switch {
	case len(c.Endpoints) == 0:
		return nil, fmt.Errorf("%w: no endpoints", ErrConfig)
	case encrypted != 0 && encrypted != len(c.Endpoints):
		return nil, fmt.Errorf("%w: some endpoints have TLS, some not", ErrConfig)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return nil, fmt.Errorf("%w: a client certificate takes a certificate file and a key file", ErrConfig)
	case encrypted == 0 && (c.CAFile != "" || c.CertFile != ""):
		return nil, fmt.Errorf("%w: certificates for endpoints without TLS", ErrConfig)
	case encrypted == 0:
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%w: authorities: %w", ErrConfig, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: %s has no certificates", ErrConfig, c.CAFile)
		}
	}
	if c.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}
