// Package kmstest is a KMS v2 plugin for tests: it keeps its keys in memory, changes them, stops, comes back and hangs
// when it is told to.
package kmstest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// annotation is what the plugin wants back with what it encrypted.
const annotation = "kms.keelson.example.com"

// Plugin is a KMS v2 plugin. It is safe for concurrent use, and keeps its keys while it is stopped.
type Plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer

	mu      sync.Mutex
	server  *grpc.Server
	served  chan error
	keys    map[string]cipher.AEAD
	current string
	health  string
	hang    chan struct{} // closed when calls go on; nil while they do
	calls   Calls
}

// Calls counts what a plugin was asked.
type Calls struct{ Status, Encrypt, Decrypt int }

// New returns a plugin with one key, which nobody reaches yet.
func New(keyID string) *Plugin {
	p := &Plugin{keys: map[string]cipher.AEAD{}, health: "ok"}
	p.Rotate(keyID)
	return p
}

// Start serves at a unix socket until Stop.
func (p *Plugin) Start(path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	kmsapi.RegisterKeyManagementServiceServer(server, p)
	p.mu.Lock()
	p.server, p.served = server, served
	p.mu.Unlock()
	go func() { served <- server.Serve(listener) }()
	return nil
}

// Stop ends serving and waits for it. Calls fail. It may be started again.
func (p *Plugin) Stop() error {
	p.Hang(false)
	p.mu.Lock()
	server, served := p.server, p.served
	p.server = nil
	p.mu.Unlock()
	if server == nil {
		return nil
	}
	server.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Rotate makes the key of an ID, which is made if it is new, the one to encrypt with. Others are kept.
func (p *Plugin) Rotate(keyID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = keyID
	if p.keys[keyID] == nil {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		p.keys[keyID] = aead(key)
	}
}

func aead(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil
	}
	return a
}

// Forget loses a key.
func (p *Plugin) Forget(keyID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, keyID)
}

// Health sets what the status says, at first "ok".
func (p *Plugin) Health(health string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health = health
}

// Hang keeps calls waiting from now on, or lets them go on.
func (p *Plugin) Hang(hang bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hang != nil {
		close(p.hang)
		p.hang = nil
	}
	if hang {
		p.hang = make(chan struct{})
	}
}

// Calls tells what the plugin was asked so far.
func (p *Plugin) Calls() Calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// enter counts a call and waits while the plugin hangs.
func (p *Plugin) enter(ctx context.Context, count func(*Calls)) error {
	p.mu.Lock()
	count(&p.calls)
	hang := p.hang
	p.mu.Unlock()
	if hang == nil {
		return nil
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status is the protocol's.
func (p *Plugin) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	if err := p.enter(ctx, func(c *Calls) { c.Status++ }); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: p.health, KeyId: p.current}, nil
}

// Encrypt is the protocol's.
func (p *Plugin) Encrypt(ctx context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	if err := p.enter(ctx, func(c *Calls) { c.Encrypt++ }); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.keys[p.current]
	if key == nil {
		return nil, status.Error(codes.FailedPrecondition, "no such key")
	}
	return &kmsapi.EncryptResponse{
		KeyId: p.current, Ciphertext: key.Seal(nil, nil, r.GetPlaintext(), []byte(annotation)),
		Annotations: map[string][]byte{annotation: []byte(p.current)},
	}, nil
}

// Decrypt is the protocol's.
func (p *Plugin) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if err := p.enter(ctx, func(c *Calls) { c.Decrypt++ }); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.keys[r.GetKeyId()]
	if key == nil || string(r.GetAnnotations()[annotation]) != r.GetKeyId() {
		return nil, status.Error(codes.FailedPrecondition, "no such key")
	}
	plaintext, err := key.Open(nil, nil, r.GetCiphertext(), []byte(annotation))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "not encrypted with this key")
	}
	return &kmsapi.DecryptResponse{Plaintext: plaintext}, nil
}
