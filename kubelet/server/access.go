package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// subresources returns the node subresources that a path belongs to; access to any one of them suffices.
func subresources(path string) []string {
	var all []string
	switch {
	case below(path, "/pods"), below(path, "/runningpods"):
		all = append(all, "pods")
	case below(path, "/healthz"):
		all = append(all, "healthz")
	case below(path, "/configz"):
		all = append(all, "configz")
	}
	switch {
	case below(path, "/stats"):
		return append(all, "stats")
	case below(path, "/metrics"):
		return append(all, "metrics")
	case below(path, "/logs"):
		return append(all, "log")
	case below(path, "/checkpoint"):
		return append(all, "checkpoint")
	case below(path, "/statusz"):
		return append(all, "statusz")
	case below(path, "/flagz"):
		return append(all, "configz")
	}
	return append(all, "proxy")
}

func below(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// verb returns the API verb of a method.
func verb(method string) string {
	return map[string]string{
		http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]
}

// authorize returns the code and text with which to refuse a request; code 0 allows it.
func (s *Server) authorize(r *http.Request, id *authn.Identity) (code int, refusal string) {
	parts := subresources(r.URL.Path)
	if s.options.Authorizer == nil {
		return http.StatusForbidden, "Authorization error: no authorizer is configured"
	}
	a := authz.Attributes{
		User: id, Verb: verb(r.Method), Version: "v1", Resource: "nodes", Name: s.options.NodeName, ResourceRequest: true, Path: r.URL.Path,
	}
	for _, part := range parts {
		a.Subresource = part
		decision, err := s.options.Authorizer.Authorize(r.Context(), a)
		switch {
		case decision.Verdict == authz.Allow:
			return 0, ""
		case err != nil:
			s.log.Error("authorization failed", "user", id.Name, "verb", a.Verb, "subresource", part, "error", err)
			return http.StatusInternalServerError,
				fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", id.Name, a.Verb, part)
		}
	}
	s.log.Info("request forbidden", "user", id.Name, "verb", a.Verb, "path", r.URL.Path)
	return http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", id.Name, a.Verb, parts)
}
