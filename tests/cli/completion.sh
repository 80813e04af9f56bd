# Completion knows the commands, their options, and the names that these take, by asking weir.
python3 "$ROOT/tools/make-completion" --weir "$WEIR_BUILD/bin/weir" completion
bash -n completion/weir
source completion/weir
mkdir folder && touch profile.json 'a plan.json'

offer() {  # words of a line, the last of them not yet whole: what bash offers for it
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _weir
    echo "$* -> $(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' ')"
}
offer weir ''
offer weir ex
offer weir help pa
offer weir partition --s
offer weir partition --schedule zb
offer weir partition --schedule = zb-
offer weir partition -s seq
offer weir partition --optimizer = ''
offer weir partition --micro-batches ''
offer weir partition pro
offer weir partition --profile= a
offer weir train --out fo
offer weir train gpt
offer weir import ''
offer weir export tor
offer weir schedule in
offer weir schedule search --pla
offer weir schedule search --placement ''
offer weir check --sends = ''
offer weir sweep --schedules 1f1b,gp
offer weir nothing ''

# Every option of every command is offered, and every name is taken.
for command in $(weir --help | awk '/^  [a-z]/ { print $1 }') 'schedule search'; do
    COMP_WORDS=(weir $command --) COMPREPLY=()
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _weir
    cmp <(printf '%s\n' "${COMPREPLY[@]}" | sort) <(weir $command --help | grep -E '^  (-.,|   )' |
        grep -oE -- ' --[a-z-]+' | tr -d ' ' | sort -u) || echo "$command: other options"
done

if command -v zsh > /dev/null; then
    zsh -n completion/_weir || echo "zsh cannot read it"
    cat > ask.zsh <<'ZSH'
# What zsh makes of a line and a tab, in a terminal of its own, once its line editor listens.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($PWD/completion \$fpath); autoload -Uz compinit; compinit -D -u; zstyle ':completion:*' list-prompt ''"
zpty -w shell "zle-line-init() { print -n rea''dy }; zle -N zle-line-init; stty cols 200; bindkey '^I' complete-word"
zpty -r -m shell said '*ready*'
zpty -w -n shell "$1"$'\t'
zpty -w -n shell $'\x01echo \x05'$'\necho fini''shed\n'
zpty -r -m shell said '*finished*'
print -r -- "$said"
ZSH
    for line in 'weir part:weir partition' 'weir partition --sched:weir partition --schedule' \
        'weir schedule interleaved-:weir schedule interleaved-zb' 'weir export --profile=prof:weir export --profile=profile.json'; do
        zsh -f ask.zsh "${line%%:*}" > said.txt 2>&1
        tr -d '\r' < said.txt | grep -qx "${line#*:}" || { echo "zsh does not complete $line:"; cat -v said.txt; }
    done
else
    echo "# no zsh here: not asked" >&2
fi
