package kms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// DefaultTimeout is how long a call may take where upstream's configuration says nothing.
const DefaultTimeout = 3 * time.Second

// Client is a plugin behind a unix socket.
type Client struct {
	connection *grpc.ClientConn
	plugin     kmsapi.KeyManagementServiceClient
	timeout    time.Duration
}

var _ Service = (*Client)(nil)

// Dial returns the plugin at an endpoint such as unix:///run/kms.sock or, for Linux' abstract names,
// unix:///@kms. It connects when it is first asked, and again when it lost the connection. A call takes timeout at
// most, and waits that long for the plugin to come up; 0 means DefaultTimeout. The caller closes the client.
func Dial(endpoint string, timeout time.Duration) (*Client, error) {
	path, err := socket(endpoint)
	if err != nil {
		return nil, err
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = 100*time.Millisecond, time.Second // it is on this machine
	connection, err := grpc.NewClient("passthrough:///kms",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, fmt.Errorf("failed to create connection to %s, error: %w", endpoint, err)
	}
	return &Client{connection: connection, plugin: kmsapi.NewKeyManagementServiceClient(connection), timeout: timeout}, nil
}

// socket returns the path of an endpoint, with upstream's errors.
func socket(endpoint string) (string, error) {
	if endpoint == "" {
		return "", errors.New("remote KMS provider can't use empty string as endpoint")
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("invalid endpoint %q for remote KMS provider, error: %w", endpoint, err)
	}
	if u.Scheme != "unix" {
		return "", fmt.Errorf("unsupported scheme %q for remote KMS provider", u.Scheme)
	}
	if strings.HasPrefix(u.Path, "/@") {
		return strings.TrimPrefix(u.Path, "/"), nil
	}
	return u.Path, nil
}

// Close ends the connection; calls that are under way fail.
func (c *Client) Close() error { return c.connection.Close() }

// Status asks how the plugin is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := again(ctx, func() (*kmsapi.StatusResponse, error) { return c.plugin.Status(ctx, &kmsapi.StatusRequest{}) })
	if err != nil {
		return Status{}, sort(err)
	}
	return Status{Version: r.GetVersion(), Health: r.GetHealthz(), KeyID: r.GetKeyId()}, nil
}

// Encrypt has the plugin encrypt.
func (c *Client) Encrypt(ctx context.Context, uid string, plaintext []byte) (Sealed, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := again(ctx, func() (*kmsapi.EncryptResponse, error) {
		return c.plugin.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid})
	})
	if err != nil {
		return Sealed{}, sort(err)
	}
	return Sealed{Ciphertext: r.GetCiphertext(), KeyID: r.GetKeyId(), Annotations: r.GetAnnotations()}, nil
}

// Decrypt has the plugin decrypt.
func (c *Client) Decrypt(ctx context.Context, uid string, sealed Sealed) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := again(ctx, func() (*kmsapi.DecryptResponse, error) {
		return c.plugin.Decrypt(ctx, &kmsapi.DecryptRequest{
			Ciphertext: sealed.Ciphertext, Uid: uid, KeyId: sealed.KeyID, Annotations: sealed.Annotations,
		})
	})
	if err != nil {
		return nil, sort(err)
	}
	return r.GetPlaintext(), nil
}

// again repeats a call once when it lost its connection, as it does when the plugin was started anew: the
// second waits until that is there.
func again[T any](ctx context.Context, call func() (T, error)) (T, error) {
	r, err := call()
	if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		return call()
	}
	return r, err
}

// sort tells a plugin that is not there from one that says no.
func sort(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return unavailable{err}
	}
	return err
}

// unavailable is an ErrUnavailable in the words of its error.
type unavailable struct{ error }

func (u unavailable) Unwrap() []error { return []error{ErrUnavailable, u.error} }
