package authenticationconfig

import (
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/authn/webhook/remote"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
)

// webhookPatience is how long a webhook may take to answer once.
const webhookPatience = 30 * time.Second

// Webhook are the values of kube-apiserver's flags about a webhook that verifies tokens: --authentication-token-webhook-config-file and so
// on. NewWebhook has upstream's defaults.
type Webhook struct {
	// ConfigFile leads to the webhook; empty is none. It speaks Version of authentication.k8s.io.
	ConfigFile, Version string
	// CacheTTL is how long its answers are cached; 0 is not at all.
	CacheTTL time.Duration
}

// NewWebhook returns the values of flags that nobody gave.
func NewWebhook() Webhook { return Webhook{Version: "v1beta1", CacheTTL: 2 * time.Minute} }

// Stages returns the authenticator of tokens that the webhook knows; none without a file.
func (w Webhook) Stages() ([]cluster.AuthenticatorStage, error) {
	if w.ConfigFile == "" {
		return nil, nil
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: w.ConfigFile})
	if err != nil {
		return nil, err
	}
	access.Config.Timeout = webhookPatience
	reviewer, err := remote.New(access.Config, w.Version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.ConfigFile, err)
	}
	o := webhook.Options{Keep: w.CacheTTL, Timeout: remote.Longest(webhookPatience)}
	if o.Keep == 0 {
		o.Keep = -1
	}
	return []cluster.AuthenticatorStage{cluster.Ready[authn.Authenticator]("webhook", token.New(webhook.New(reviewer, o)))}, nil
}
