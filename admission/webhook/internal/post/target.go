package post

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"

	registrationv1 "k8s.io/api/admissionregistration/v1"
)

// Target returns the URL of a webhook; that of a service has the service's name as its host. The errors are upstream's.
func Target(to *registrationv1.WebhookClientConfig) (*url.URL, error) {
	switch {
	case to.Service != nil:
		at := ""
		if to.Service.Path != nil {
			at = *to.Service.Path
		}
		return target(Address(to.Service), at), nil
	case to.URL == nil || *to.URL == "":
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	u, err := url.Parse(*to.URL)
	if err != nil {
		return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // upstream's words
	}
	return target(u.Host, u.Path), nil
}

func target(host, at string) *url.URL {
	return &url.URL{Scheme: "https", Host: host, Path: path.Join("/", at)}
}

// ServerName returns the name in the certificate of a service.
func ServerName(s *registrationv1.ServiceReference) string {
	return s.Name + "." + s.Namespace + ".svc"
}

// Address returns a service's name and port.
func Address(s *registrationv1.ServiceReference) string {
	return net.JoinHostPort(ServerName(s), strconv.Itoa(int(Port(s))))
}

// Port returns a service's port.
func Port(s *registrationv1.ServiceReference) int32 {
	if s.Port == nil {
		return 443
	}
	return *s.Port
}
