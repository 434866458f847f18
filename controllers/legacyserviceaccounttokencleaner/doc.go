// Package legacyserviceaccounttokencleaner removes tokens of service accounts that were once made for them automatically, are
// kept in secrets, and are not used any more, like the legacy-serviceaccount-token-cleaner-controller of
// kube-controller-manager.
//
// Such a secret is named by its account, is mounted by no pod, and has not been used for a year. It is labelled as invalid
// first, from when on its token is refused, and deleted after another year. Nothing happens before the use of tokens has been
// tracked for a year, which a ConfigMap of the API server tells.
//
// A Controller runs one round a day, with one worker. It logs what fails and tries it again in the next round.
package legacyserviceaccounttokencleaner
